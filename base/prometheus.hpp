#pragma once
// The text form of metrics, and the histogram that all processes use.

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace drawbridge::base {

using Counter = std::atomic<std::uint64_t>;
using Gauge = std::atomic<std::int64_t>;

/// Appends HELP and TYPE of a metric.
void append_metric_head(std::string& out, std::string_view name, std::string_view type,
                        std::string_view help);
/// Appends one series; `labels` as they stand between the braces, empty: none.
void append_series(std::string& out, std::string_view name, std::string_view labels,
                   std::int64_t value);
/// `name="value"` with the value escaped.
[[nodiscard]] std::string metric_label(std::string_view name, std::string_view value);

[[nodiscard]] std::int64_t value_of(const Counter& counter);

/// A histogram of durations with bounds from a tenth of a millisecond to five seconds.
class DurationHistogram {
public:
    /// Upper bounds in seconds.
    static constexpr std::array bounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                          0.025,  0.05,    0.1,    0.25,  0.5,    1.0,   5.0};

    void observe(std::chrono::nanoseconds duration);
    /// Appends the series of the metric `name` without its HELP and TYPE.
    void render(std::string& out, std::string_view name, std::string_view labels = {}) const;

private:
    std::array<Counter, bounds.size() + 1> counts_{};
    std::atomic<std::uint64_t> nanoseconds_{0};
};

}  // namespace drawbridge::base
