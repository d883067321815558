#include "base/prometheus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace drawbridge::base {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

}  // namespace

void append_metric_head(std::string& out, std::string_view name, std::string_view type,
                        std::string_view help) {
    fmt::format_to(std::back_inserter(out), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

void append_series(std::string& out, std::string_view name, std::string_view labels,
                   std::int64_t value) {
    fmt::format_to(std::back_inserter(out), "{}{}{}{} {}\n", name, labels.empty() ? "" : "{",
                   labels, labels.empty() ? "" : "}", value);
}

std::string metric_label(std::string_view name, std::string_view value) {
    std::string text = fmt::format("{}=\"", name);
    for (const char c : value) {
        if (c == '\\' || c == '"') text += '\\';
        if (c == '\n') {
            text += "\\n";
        } else {
            text += c;
        }
    }
    return text + '"';
}

std::int64_t value_of(const Counter& counter) {
    return static_cast<std::int64_t>(counter.load(relaxed));
}

void DurationHistogram::observe(std::chrono::nanoseconds duration) {
    const double seconds = std::chrono::duration<double>(duration).count();
    const auto bucket = std::ranges::lower_bound(bounds, seconds) - bounds.begin();
    counts_[static_cast<std::size_t>(bucket)].fetch_add(1, relaxed);
    nanoseconds_.fetch_add(static_cast<std::uint64_t>(std::max<std::int64_t>(duration.count(), 0)),
                           relaxed);
}

void DurationHistogram::render(std::string& out, std::string_view name,
                               std::string_view labels) const {
    auto end = std::back_inserter(out);
    const std::string_view comma = labels.empty() ? "" : ",";
    const std::string braced = labels.empty() ? "" : fmt::format("{{{}}}", labels);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < bounds.size(); ++i) {
        sum += counts_[i].load(relaxed);
        fmt::format_to(end, "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bounds[i], sum);
    }
    sum += counts_.back().load(relaxed);
    fmt::format_to(end, "{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels, comma, sum);
    fmt::format_to(end, "{}_sum{} {}\n", name, braced,
                   static_cast<double>(nanoseconds_.load(relaxed)) / 1e9);
    fmt::format_to(end, "{}_count{} {}\n", name, braced, sum);
}

}  // namespace drawbridge::base
