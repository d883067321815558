#pragma once
// When a process that was told to stop may do so: pure rules on time and what is still open.

#include <chrono>
#include <cstddef>

namespace drawbridge::server {

/// serving; leaving: not ready, still accepting, since word of that takes time to get round;
/// finishing: accepts no more and waits for what is open; stopped.
enum class DrainPhase { serving, leaving, finishing, stopped };

/// How long the phases may take.
struct DrainTimes {
    std::chrono::nanoseconds leaving{};
    std::chrono::nanoseconds finishing{};
};

/// The way from `serving` to `stopped`; never goes back.
class Drain {
public:
    using Time = std::chrono::steady_clock::time_point;

    explicit Drain(DrainTimes times) : times_(times) {}

    /// The first signal starts the way; a second one ends at once.
    void on_signal(Time now);
    /// Looks at the clock and at how many connections are open; moves on by one phase at most, so
    /// that the caller can do what belongs to each.
    DrainPhase step(Time now, std::size_t open_connections);
    [[nodiscard]] DrainPhase phase() const { return phase_; }
    /// Until when `step` need not be called again, unless something is closed.
    [[nodiscard]] Time next() const;

private:
    DrainTimes times_;
    DrainPhase phase_ = DrainPhase::serving;
    Time since_{};  ///< when the phase began
};

}  // namespace drawbridge::server
