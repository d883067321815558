#pragma once
// The seam through which time comes in, so that tests can set it.

#include <atomic>
#include <chrono>

namespace drawbridge::base {

/// Time as the code sees it. Both functions may be called from any thread.
class Clock {
public:
    using Wall = std::chrono::system_clock::time_point;
    using Steady = std::chrono::steady_clock::time_point;

    virtual ~Clock() = default;
    /// The time of day; may jump. For what leaves the process: logs, certificates, leases.
    [[nodiscard]] virtual Wall now() const = 0;
    /// Never goes back. For durations and deadlines.
    [[nodiscard]] virtual Steady steady() const = 0;
};

/// The time of the system.
class SystemClock final : public Clock {
public:
    [[nodiscard]] Wall now() const override { return std::chrono::system_clock::now(); }
    [[nodiscard]] Steady steady() const override { return std::chrono::steady_clock::now(); }
};

/// Time that stands still until a test moves it.
class ManualClock final : public Clock {
public:
    explicit ManualClock(Wall start = {}) : wall_(start.time_since_epoch()) {}

    [[nodiscard]] Wall now() const override { return Wall(wall_.load()); }
    [[nodiscard]] Steady steady() const override { return Steady(steady_.load()); }

    /// Moves both times on.
    void advance(std::chrono::nanoseconds by) {
        wall_ = wall_.load() + std::chrono::duration_cast<Wall::duration>(by);
        steady_ = steady_.load() + std::chrono::duration_cast<Steady::duration>(by);
    }
    /// Sets the time of day alone, as an administrator does.
    void set_wall(Wall to) { wall_ = to.time_since_epoch(); }

private:
    std::atomic<Wall::duration> wall_;
    std::atomic<Steady::duration> steady_{Steady::duration::zero()};
};

}  // namespace drawbridge::base
