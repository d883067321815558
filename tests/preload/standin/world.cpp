#include "tests/preload/standin/world.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace standin {
namespace {

World* shared;
int state_file = -1;  // stays open: closing it would let go of the lock on this process's place
Holder* own;
std::mutex mapping;
std::atomic<pid_t> sweeper;  // the process whose thread sweeps, or 0

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

std::atomic_ref<std::uint64_t> at(std::uint64_t& word) {
    return std::atomic_ref(word);
}

// Field 22 of /proc/PID/stat; 0 where the process is gone, also while it is read.
std::uint64_t start_time_of(std::uint32_t pid) {
    char text[512];
    const int file = open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t got = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    if (got <= 0) return 0;
    text[got] = '\0';
    const char* at = std::strrchr(text, ')');
    for (int field = 2; at != nullptr && field < 22; ++field)
        at = std::strchr(at + 1, ' ');
    return at == nullptr ? 0 : std::strtoull(at, nullptr, 10);
}

std::uint64_t pid_namespace() {
    struct stat facts {};
    return stat("/proc/self/ns/pid", &facts) == 0 ? facts.st_ino : 0;
}

// A lock of the process, not of an open file: the kernel gives it back at death, and tells who has
// it.
struct flock lock_of(const Holder& one) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_start = static_cast<off_t>(sizeof(World)) + (&one - world().holders);
    lock.l_len = 1;
    return lock;
}

// Whether another process has a place's lock, and its pid; 0 where this namespace has none for it.
bool is_locked(const Holder& one, std::uint32_t& pid) {
    struct flock lock = lock_of(one);
    if (state_file < 0 || fcntl(state_file, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK)
        return false;
    pid = lock.l_pid > 0 ? static_cast<std::uint32_t>(lock.l_pid) : 0;
    return true;
}

// For processes without a lock: this one, and those that closed all their files.
bool is_seen(const Holder& one) {
    return one.pid_namespace == pid_namespace() && start_time_of(one.pid) == one.start_time;
}

World* map_world() {
    const char* path = std::getenv("DRAWBRIDGE_STANDIN_STATE");
    int file = path == nullptr ? -1 : open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0 && (flock(file, LOCK_EX) != 0 || ftruncate(file, sizeof(World)) != 0))
        std::abort();
    void* place = mmap(nullptr, sizeof(World), PROT_READ | PROT_WRITE,
                       file >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, file, 0);
    if (place == MAP_FAILED) std::abort();
    auto* made = static_cast<World*>(place);
    if (made->devices == 0) {
        for (auto& bytes : made->bytes)
            bytes = number("DRAWBRIDGE_STANDIN_BYTES", device_bytes);
        made->devices = static_cast<std::uint32_t>(number("DRAWBRIDGE_STANDIN_DEVICES", 1));
    }
    if (file >= 0 && flock(file, LOCK_UN) != 0) std::abort();
    state_file = file;
    return made;
}

// Waits for who empties the place at this moment.
void take_lock(const Holder& one) {
    struct flock lock = lock_of(one);
    while (state_file >= 0 && fcntl(state_file, F_SETLKW, &lock) != 0)
        if (errno != EINTR) std::abort();
}

bool is_dead(Holder& one) {
    std::uint32_t pid = 0;
    return std::atomic_ref(one.taken).load() == 1 && !is_locked(one, pid) && !is_seen(one);
}

void empty(Holder& one) {
    for (std::size_t device = 0; device < max_devices; ++device)
        at(world().held[device]).fetch_sub(at(one.blocks[device]).exchange(0));
    std::memset(one.overhead, 0, sizeof one.overhead);
    std::memset(one.contexts, 0, sizeof one.contexts);
    std::memset(one.busy_second, 0, sizeof one.busy_second);
    std::atomic_ref(one.taken).store(0);
}

Holder* enter() {
    sweep();
    for (std::uint32_t place = 0; place < std::size(world().holders); ++place) {
        Holder& one = world().holders[place];
        std::uint32_t free = 0;
        if (!std::atomic_ref(one.taken).compare_exchange_strong(free, 2)) continue;
        one.pid = static_cast<std::uint32_t>(getpid());
        one.start_time = start_time_of(one.pid);
        one.pid_namespace = pid_namespace();
        take_lock(one);
        std::atomic_ref high(world().high_water);
        for (std::uint32_t seen = high;
             seen <= place && !high.compare_exchange_weak(seen, place + 1);) {
        }
        std::atomic_ref(one.taken).store(1);
        return &one;
    }
    std::abort();
}

std::uint64_t sum(int device, std::uint64_t (Holder::*part)[max_devices]) {
    std::uint64_t total = 0;
    const std::uint32_t count = std::atomic_ref(world().high_water).load();
    for (std::uint32_t place = 0; place < count; ++place)
        total += at((world().holders[place].*part)[device]).load();
    return total;
}

void raise_peak(int device, std::uint64_t now) {
    std::uint64_t before = at(world().peak[device]).load();
    while (before < now && !at(world().peak[device]).compare_exchange_weak(before, now)) {
    }
}

bool take(int device, std::uint64_t bytes, std::uint64_t (Holder::*part)[max_devices]) {
    if (bytes > std::uint64_t{1} << 50) return false;
    for (int tries = 0; tries < 2; ++tries) {
        at((holder().*part)[device]).fetch_add(bytes);
        if (used_on(device) <= world().bytes[device]) return true;
        at((holder().*part)[device]).fetch_sub(bytes);
        sweep();
    }
    return false;
}

}  // namespace

World& world() {
    if (World* known = std::atomic_ref(shared).load(std::memory_order_acquire)) return *known;
    const std::lock_guard guard(mapping);
    if (shared == nullptr) std::atomic_ref(shared).store(map_world(), std::memory_order_release);
    return *shared;
}

// Who else finds a process dead may have emptied its place, and a new one have entered: that is
// looked at again under the place's lock. It is the whole process's, so its threads sweep one by
// one; a thread of the parent's, at work when this one was forked, is not here.
void sweep() {
    const pid_t process = getpid();
    for (pid_t other = 0; !sweeper.compare_exchange_weak(other, process); sched_yield())
        if (other == process) other = 0;
    for (Holder& one : world().holders) {
        if (!is_dead(one)) continue;
        struct flock lock = lock_of(one);
        if (state_file >= 0 && fcntl(state_file, F_SETLK, &lock) != 0) continue;
        if (is_dead(one)) empty(one);
        lock.l_type = F_UNLCK;
        if (state_file >= 0 && fcntl(state_file, F_SETLK, &lock) != 0) std::abort();
    }
    sweeper = 0;
}

std::uint32_t pid_of(const Holder& one) {
    std::uint32_t pid = 0;
    if (is_locked(one, pid)) return pid;
    return is_seen(one) ? one.pid : 0;
}

Holder& holder() {
    if (own == nullptr) {
        own = enter();
        pthread_atfork(nullptr, nullptr, [] { own = nullptr; });
    }
    return *own;
}

// One word tells what all hold at a moment: while the parts of many are added up, a block may be
// given back by one and taken by another, and count twice. Who dies in between leaves it too high.
bool take_blocks(int device, std::uint64_t bytes) {
    const std::uint64_t now = at(world().held[device]).fetch_add(bytes) + bytes;
    if (take(device, bytes, &Holder::blocks)) {
        raise_peak(device, now);
        return true;
    }
    at(world().held[device]).fetch_sub(bytes);
    return false;
}

void give_blocks(int device, std::uint64_t bytes) {
    at(holder().blocks[device]).fetch_sub(bytes);
    at(world().held[device]).fetch_sub(bytes);
}
bool take_overhead(int device, std::uint64_t bytes) {
    return take(device, bytes, &Holder::overhead);
}
void give_overhead(int device, std::uint64_t bytes) {
    at(holder().overhead[device]).fetch_sub(bytes);
}

void count_context(int device, int change) {
    at(holder().contexts[device]).fetch_add(static_cast<std::uint64_t>(std::int64_t{change}));
}

void count_busy(int device, std::uint64_t from_ns, std::uint64_t to_ns) {
    Holder& one = holder();
    while (from_ns < to_ns) {
        const std::uint64_t second = from_ns / second_ns;
        const std::uint64_t end = std::min(to_ns, (second + 1) * second_ns);
        const std::uint64_t place = second % busy_seconds;
        if (at(one.busy_second[device][place]).exchange(second) != second)
            at(one.busy_ns[device][place]).store(0);
        at(one.busy_ns[device][place]).fetch_add(end - from_ns);
        from_ns = end;
    }
}

std::uint64_t busy_in(const Holder& one, int device, std::uint64_t second) {
    const std::uint64_t place = second % busy_seconds;
    return one.busy_second[device][place] == second ? one.busy_ns[device][place] : 0;
}

std::uint64_t used_on(int device) {
    const std::uint64_t overhead = sum(device, &Holder::overhead);
    const std::uint64_t hidden = sum(device, &Holder::contexts) * hidden_bytes;
    bool anybody = false;
    const std::uint32_t count = std::atomic_ref(world().high_water).load();
    for (std::uint32_t place = 0; place < count; ++place)
        anybody = anybody || std::atomic_ref(world().holders[place].taken).load() == 1;
    return sum(device, &Holder::blocks) + overhead + hidden + (anybody ? idle_bytes : 0);
}

void uuid_of(int device, unsigned char (&uuid)[16]) {
    std::memset(uuid, 0, sizeof uuid);
    uuid[0] = 0x5d;
    uuid[15] = static_cast<unsigned char>(device + 1);
}

}  // namespace standin
