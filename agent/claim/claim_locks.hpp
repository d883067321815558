#pragma once
// Locks on a claim, and on the sums over all claims, for the threads of this process and for other
// instances of the agent.

#include "base/result.hpp"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

namespace drawbridge::agent {

/// Each lock is a byte of one file, locked by open file description, so that a process that dies
/// lets go of it. Any thread.
class ClaimLocks {
public:
    /// Ends with the lock.
    class Held {
    public:
        Held(ClaimLocks& locks, std::uint64_t byte, int file)
            : locks_(&locks), byte_(byte), file_(file) {}
        Held(Held&& other) noexcept;
        Held& operator=(Held&&) = delete;
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;
        ~Held();

    private:
        ClaimLocks* locks_;
        std::uint64_t byte_;
        int file_;
    };

    /// `path` of the file, which is made where it is missing.
    explicit ClaimLocks(std::string path) : path_(std::move(path)) {}

    /// Waits for the lock of one claim; `timed_out` after `patience`.
    [[nodiscard]] base::Result<Held> hold_claim(std::string_view uid,
                                                std::chrono::milliseconds patience);
    /// Waits for the lock of the sums, which is asked for only by who holds a claim's.
    [[nodiscard]] base::Result<Held> hold_sums(std::chrono::milliseconds patience);

private:
    base::Result<Held> hold(std::uint64_t byte, std::chrono::milliseconds patience);
    void release(std::uint64_t byte);

    std::string path_;
    std::mutex mutex_;
    std::condition_variable released_;
    std::set<std::uint64_t> held_;  ///< by this process
};

}  // namespace drawbridge::agent
