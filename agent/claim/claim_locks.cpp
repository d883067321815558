#include "agent/claim/claim_locks.hpp"

#include "base/hash.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::uint64_t sums_byte = 0;
// Between tries at a lock that another process holds, which cannot tell us when it lets go.
constexpr std::chrono::milliseconds pause{2};

/// A byte of its own for each claim, as good as never shared: 62 bits of a hash.
std::uint64_t byte_of(std::string_view uid) {
    const base::Sha256 hash = base::sha256(uid);
    std::uint64_t byte = 0;
    std::memcpy(&byte, hash.data(), sizeof byte);
    return (byte >> 2U) | 1U;
}

bool try_lock(int file, std::uint64_t byte) {
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = static_cast<off_t>(byte);
    lock.l_len = 1;
    return ::fcntl(file, F_OFD_SETLK, &lock) == 0;
}

}  // namespace

ClaimLocks::Held::Held(Held&& other) noexcept
    : locks_(std::exchange(other.locks_, nullptr)), byte_(other.byte_), file_(other.file_) {}

ClaimLocks::Held::~Held() {
    if (locks_ == nullptr) return;
    ::close(file_);
    locks_->release(byte_);
}

void ClaimLocks::release(std::uint64_t byte) {
    const std::lock_guard lock(mutex_);
    held_.erase(byte);
    released_.notify_all();
}

base::Result<ClaimLocks::Held> ClaimLocks::hold(std::uint64_t byte,
                                                std::chrono::milliseconds patience) {
    const auto deadline = Steady::now() + patience;
    {
        std::unique_lock lock(mutex_);
        const auto is_free = [&] { return !held_.contains(byte); };
        if (!released_.wait_until(lock, deadline, is_free))
            return base::fail(base::ErrorKind::timed_out, "the claim is being worked on");
        held_.insert(byte);
    }
    const int file = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        release(byte);
        return base::fail(base::ErrorKind::internal,
                          fmt::format("cannot open the lock file: {}", std::strerror(errno)),
                          path_);
    }
    Held held(*this, byte, file);
    while (!try_lock(file, byte)) {
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return base::fail(base::ErrorKind::internal,
                              fmt::format("cannot lock: {}", std::strerror(errno)), path_);
        if (Steady::now() >= deadline)
            return base::fail(base::ErrorKind::timed_out,
                              "another instance of the agent is working on the claim");
        std::this_thread::sleep_for(pause);
    }
    return held;
}

base::Result<ClaimLocks::Held> ClaimLocks::hold_claim(std::string_view uid,
                                                      std::chrono::milliseconds patience) {
    return hold(byte_of(uid), patience);
}

base::Result<ClaimLocks::Held> ClaimLocks::hold_sums(std::chrono::milliseconds patience) {
    return hold(sums_byte, patience);
}

}  // namespace drawbridge::agent
