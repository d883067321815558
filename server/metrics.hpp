#pragma once
// What this process counts; docs/metrics.md describes each, tests/golden/metrics.txt lists them.

#include "server/kubernetes_backend.hpp"
#include "translate/translate.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace drawbridge::server {

using Counter = std::atomic<std::uint64_t>;
using Gauge = std::atomic<std::int64_t>;

/// A histogram of durations with the bounds that reviews need.
class DurationHistogram {
public:
    /// Upper bounds in seconds.
    static constexpr std::array bounds = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01,
                                          0.025,  0.05,    0.1,    0.25,  0.5,    1.0,   5.0};

    void observe(std::chrono::nanoseconds duration);
    /// Appends the series of the metric `name` without its HELP and TYPE.
    void render(std::string& out, std::string_view name) const;

private:
    std::array<Counter, bounds.size() + 1> counts_{};
    std::atomic<std::uint64_t> nanoseconds_{0};
};

/// Why a review got no AdmissionReview in answer, but a plain HTTP failure.
enum class ReviewFailure {
    undecodable,
    overloaded,
    not_ready,
    sizes_not_listed,
    store_failed,
    store_timed_out,
    internal
};
inline constexpr std::array<std::string_view, 7> review_failures = {
    "undecodable",  "overloaded",      "not-ready", "sizes-not-listed",
    "store-failed", "store-timed-out", "internal"};

/// The HTTP answers that are no review, by status.
inline constexpr std::array failure_statuses = {400, 404, 405, 408, 413, 415,
                                                417, 431, 500, 503, 504};

/// How a reload ended.
struct Reloads {
    Counter success{0};
    Counter failure{0};
};

/// All of them. Any thread may count; names are looked up by no one on the way of a review.
class Metrics {
public:
    static constexpr std::size_t code_count = 0
#define DRAWBRIDGE_CODE(...) +1
#include "translate/codes.inc"
#undef DRAWBRIDGE_CODE
        ;

    /// Counts an answered review: under its verdict and worst code, and each of its diagnostics.
    void count_review(const translate::Translation& translation);
    /// Counts a review that no code of ours looked at, since it concerns no pod.
    void count_untouched();
    void count_failure(ReviewFailure failure);
    /// Counts an HTTP answer other than 200.
    void count_http_failure(int status);
    void count_template_write(TemplateWrite result);

    DurationHistogram review_duration;
    Gauge reviews_in_flight{0};
    Gauge connections{0};
    Counter connections_refused{0};
    Gauge leaf_expiry{0};  ///< Unix time in seconds; 0: there is none
    Gauge ca_expiry{0};
    Reloads certificate_reloads;
    Reloads settings_reloads;

    /// The Prometheus text. `templates` and `features` are read at that moment.
    [[nodiscard]] std::string render(std::size_t templates, translate::Features features) const;

private:
    static constexpr std::size_t verdict_count = 3;

    void render_reviews(std::string& out) const;
    void render_diagnostics(std::string& out) const;
    void render_connections(std::string& out) const;
    void render_reloads(std::string& out) const;

    /// by verdict, then by code; the last code means "none"
    std::array<std::array<Counter, code_count + 1>, verdict_count> reviews_{};
    std::array<Counter, review_failures.size()> failures_{};
    std::array<Counter, code_count> diagnostics_{};
    std::array<Counter, failure_statuses.size()> http_failures_{};
    std::array<Counter, std::size(template_writes)> template_writes_{};
};

}  // namespace drawbridge::server
