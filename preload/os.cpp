#include "preload/os.hpp"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef F_OFD_GETLK
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

namespace preload {

KeepErrno::KeepErrno() : value_(errno) {}
KeepErrno::~KeepErrno() {
    errno = value_;
}

// 0 free, 1 held, 2 held and somebody may wait.
void Mutex::lock() {
    uint32_t free = 0;
    if (__atomic_compare_exchange_n(&word_, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    const KeepErrno keep;
    while (__atomic_exchange_n(&word_, 2, __ATOMIC_ACQUIRE) != 0)
        syscall(SYS_futex, &word_, FUTEX_WAIT_PRIVATE, 2, nullptr, nullptr, 0);
}

void Mutex::unlock() {
    if (__atomic_exchange_n(&word_, 0, __ATOMIC_RELEASE) != 2) return;
    const KeepErrno keep;
    syscall(SYS_futex, &word_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void SpinLock::wait() {
    for (int tries = 0; __atomic_exchange_n(&word_, 1, __ATOMIC_ACQUIRE) != 0; ++tries)
        if (tries > 64) sched_yield();
}

int open_file(const char* path, bool writable) {
    const KeepErrno keep;
    const int flags = (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY;
    return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, 0));
}

void close_file(int file) {
    const KeepErrno keep;
    if (file >= 0) syscall(SYS_close, file);
}

namespace {

// fstat and stat are newer symbols than 2.17's; the call itself is not.
FileFacts facts(int folder, const char* path, int flags) {
    const KeepErrno keep;
    struct stat state;
    if (syscall(SYS_newfstatat, folder, path, &state, flags) != 0) return {};
    return {true, state.st_dev, state.st_ino, static_cast<uint64_t>(state.st_size)};
}

bool ofd_lock(int file, int command, struct flock& lock, uint64_t byte) {
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(byte);
    lock.l_len = 1;
    lock.l_pid = 0;
    return fcntl(file, command, &lock) == 0;
}

}  // namespace

FileFacts facts_of(int file) {
    return facts(file, "", AT_EMPTY_PATH);
}
FileFacts facts_of(const char* path) {
    return facts(AT_FDCWD, path, 0);
}

void* map_file(int file, uint64_t size, bool writable) {
    const KeepErrno keep;
    void* at =
        mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
    return at == MAP_FAILED ? nullptr : at;
}

void unmap(void* address, uint64_t size) {
    const KeepErrno keep;
    if (address != nullptr) munmap(address, size);
}

void* pages(uint64_t size) {
    const KeepErrno keep;
    void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? nullptr : at;
}

ssize_t read_text(const char* path, char* buffer, size_t size) {
    const KeepErrno keep;
    const int file = open_file(path, false);
    if (file < 0) return -1;
    const ssize_t got = syscall(SYS_read, file, buffer, size - 1);
    close_file(file);
    if (got >= 0) buffer[got] = '\0';
    return got;
}

bool try_lock_byte(int file, uint64_t byte) {
    const KeepErrno keep;
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    return ofd_lock(file, F_OFD_SETLK, lock, byte);
}

void unlock_byte(int file, uint64_t byte) {
    const KeepErrno keep;
    struct flock lock = {};
    lock.l_type = F_UNLCK;
    ofd_lock(file, F_OFD_SETLK, lock, byte);
}

ByteLock probe_byte(int file, uint64_t byte) {
    const KeepErrno keep;
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    if (!ofd_lock(file, F_OFD_GETLK, lock, byte)) return ByteLock::unsupported;
    return lock.l_type == F_UNLCK ? ByteLock::free : ByteLock::held;
}

uint64_t monotonic_ns() {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void sleep_ns(uint64_t nanoseconds) {
    const KeepErrno keep;
    const timespec span = {static_cast<time_t>(nanoseconds / 1000000000u),
                           static_cast<long>(nanoseconds % 1000000000u)};
    syscall(SYS_nanosleep, &span, nullptr);
}

uint32_t process_id() {
    return static_cast<uint32_t>(getpid());
}

uint64_t start_time_of(uint32_t pid) {
    char path[32];
    char text[512];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    if (read_text(path, text, sizeof text) <= 0) return 0;
    // The second field is a name in parentheses and may hold any byte; the last ')' ends it.
    const char* at = strrchr(text, ')');
    for (int field = 2; at != nullptr && field < 22; ++field) {
        at = strchr(at + 1, ' ');
    }
    uint64_t value = 0;
    for (at = at == nullptr ? "" : at + 1; *at >= '0' && *at <= '9'; ++at)
        value = value * 10 + static_cast<uint64_t>(*at - '0');
    return value;
}

// The fifth field of each line: addresses, permissions, offset, device, inode, path.
bool may_map(uint32_t pid, uint64_t inode) {
    char path[32];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    const int file = open_file(path, false);
    if (file < 0) return true;
    int field = 0;
    uint64_t value = 0;
    bool is_found = false;
    for (ssize_t got = 1; got > 0 && !is_found;) {
        const KeepErrno keep;
        got = syscall(SYS_read, file, text, sizeof text);
        is_found = got < 0;
        for (ssize_t at = 0; at < got && !is_found; ++at) {
            const char c = text[at];
            const bool is_number = field == 4 && c >= '0' && c <= '9';
            if (is_number) value = value * 10 + static_cast<uint64_t>(c - '0');
            if (!is_number && field == 4) is_found = value == inode;
            if (c == ' ') ++field;
            if (c == '\n') field = 0;
            if (c == '\n') value = 0;
        }
    }
    close_file(file);
    return is_found;
}

uint64_t pid_namespace() {
    return facts_of("/proc/self/ns/pid").inode;
}

void complain(const char* text) {
    const KeepErrno keep;
    char line[512];
    const int length = snprintf(line, sizeof line, "drawbridge: %s\n", text);
    const size_t size = length < 0 ? 0 : static_cast<size_t>(length);
    syscall(SYS_write, STDERR_FILENO, line, size < sizeof line ? size : sizeof line - 1);
}

}  // namespace preload
