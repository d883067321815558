#pragma once
// What the library asks of the kernel, with symbols that glibc 2.17 has. No function here changes
// errno for the caller, or is one in which a thread that was cancelled ends: locks may be held.

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

namespace preload {

/// Keeps errno as the caller left it, for as long as it lives.
class KeepErrno {
public:
    KeepErrno();
    ~KeepErrno();
    KeepErrno(const KeepErrno&) = delete;
    KeepErrno& operator=(const KeepErrno&) = delete;

private:
    int value_;
};

/// A lock of this process's threads; waits in the kernel. Zero-initialised means free.
class Mutex {
public:
    void lock();
    void unlock();

private:
    uint32_t word_ = 0;
};

/// Holds a Mutex or SpinLock for a scope.
template <class Lock>
class Guard {
public:
    explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
    ~Guard() { lock_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

private:
    Lock& lock_;
};

/// A lock held for a few dozen instructions.
class SpinLock {
public:
    void lock() {
        if (__atomic_exchange_n(&word_, 1, __ATOMIC_ACQUIRE) != 0) wait();
    }
    void unlock() { __atomic_store_n(&word_, 0, __ATOMIC_RELEASE); }

private:
    void wait();

    uint32_t word_ = 0;
};

/// Identity and size of a file; `found` is false where it cannot be had.
struct FileFacts {
    bool found = false;
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t size = 0;
};

/// Opens a file, close-on-exec; -1 where it fails.
int open_file(const char* path, bool writable);
void close_file(int file);
FileFacts facts_of(int file);
FileFacts facts_of(const char* path);

/// Maps a file from its start, shared. Null where it fails.
void* map_file(int file, uint64_t size, bool writable);
void unmap(void* address, uint64_t size);
/// Zeroed private memory, in pages; null where there is none.
void* pages(uint64_t size);

/// Twice the room for items that lie in pages, or the first one where there is none; the items
/// move. False where no memory could be had.
template <class Item>
bool grow_pages(Item*& items, uint64_t count, uint64_t& room, uint64_t first_room) {
    const uint64_t more = room == 0 ? first_room : room * 2;
    auto* fresh = static_cast<Item*>(pages(more * sizeof(Item)));
    if (fresh == nullptr) return false;
    if (count != 0) memcpy(fresh, items, count * sizeof(Item));
    Item* old = items;
    const uint64_t old_room = room;
    // A child that is forked in between must not unmap more than there is, or what is gone.
    __atomic_store_n(&items, fresh, __ATOMIC_RELEASE);
    __atomic_store_n(&room, more, __ATOMIC_RELEASE);
    unmap(old, old_room * sizeof(Item));
    return true;
}

/// Reads a small file whole and ends it with a null byte; the number of bytes, -1 where it fails.
ssize_t read_text(const char* path, char* buffer, size_t size);

/// Takes the exclusive lock of one byte without waiting. Locks belong to the open file description.
bool try_lock_byte(int file, uint64_t byte);
void unlock_byte(int file, uint64_t byte);
enum class ByteLock { free, held, unsupported };
/// Whether another description holds the byte.
ByteLock probe_byte(int file, uint64_t byte);

uint64_t monotonic_ns();
void sleep_ns(uint64_t nanoseconds);
uint32_t process_id();
/// Start time of a process (field 22 of /proc/PID/stat), 0 where there is none.
uint64_t start_time_of(uint32_t pid);
/// Whether a process has a file of this inode mapped; true also where that cannot be seen.
bool may_map(uint32_t pid, uint64_t inode);
/// Inode of this process's pid namespace.
uint64_t pid_namespace();

/// Writes one line to standard error.
void complain(const char* text);

}  // namespace preload
