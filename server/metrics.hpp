#pragma once
// What this process counts; docs/metrics.md describes each, tests/golden/metrics.txt lists them.

#include "base/prometheus.hpp"
#include "server/kubernetes_backend.hpp"
#include "translate/translate.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace drawbridge::server {

using base::Counter;
using base::DurationHistogram;
using base::Gauge;

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
#define DRAWBRIDGE_CODE(...) +1  // NOLINT(bugprone-macro-parentheses): a sum of all
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
