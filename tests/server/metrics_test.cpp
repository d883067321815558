#include "server/metrics.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge;
using namespace drawbridge::server;
using namespace std::chrono_literals;

namespace {

bool has(const std::string& page, const std::string& line) {
    return page.find("\n" + line + "\n") != std::string::npos;
}

translate::Diagnostic saying(translate::Code code) {
    return {.severity = translate::info(code).severity,
            .code = code,
            .path = {},
            .container = {},
            .resource = {},
            .value = {},
            .message = {},
            .fix = {}};
}

}  // namespace

TEST_CASE("a duration counts in its bucket and all above it") {
    DurationHistogram histogram;
    for (const auto duration : {0ns, 100'000ns, 100'001ns, 1'000'000'000ns, 9'000'000'000ns}) {
        histogram.observe(duration);
    }
    std::string page = "\n";
    histogram.render(page, "d");
    CHECK(has(page, R"(d_bucket{le="0.0001"} 2)"));
    CHECK(has(page, R"(d_bucket{le="0.00025"} 3)"));
    CHECK(has(page, R"(d_bucket{le="0.5"} 3)"));
    CHECK(has(page, R"(d_bucket{le="1"} 4)"));
    CHECK(has(page, R"(d_bucket{le="5"} 4)"));
    CHECK(has(page, R"(d_bucket{le="+Inf"} 5)"));
    CHECK(has(page, "d_count 5"));
    CHECK(page.find("d_sum 10.0002") != std::string::npos);
}

TEST_CASE("a review counts under its first code, each diagnostic for itself") {
    Metrics metrics;
    translate::Translation denied;
    denied.verdict = translate::Verdict::deny;
    denied.diagnostics = {saying(translate::Code::memory_unit), saying(translate::Code::not_whole),
                          saying(translate::Code::not_whole)};
    metrics.count_review(denied);
    metrics.count_untouched();
    const std::string page = metrics.render(7, translate::Features::gate_off);
    CHECK(has(page, R"(drawbridge_reviews_total{verdict="deny",code="memory-unit"} 1)"));
    CHECK(has(page, R"(drawbridge_reviews_total{verdict="deny",code="not-whole"} 0)"));
    CHECK(has(page, R"(drawbridge_reviews_total{verdict="leave",code="none"} 1)"));
    CHECK(has(page, R"(drawbridge_diagnostics_total{code="not-whole"} 2)"));
    CHECK(has(page, "drawbridge_templates 7"));
    CHECK(has(page, R"(drawbridge_cluster_features{state="gate-off"} 1)"));
    CHECK(has(page, R"(drawbridge_cluster_features{state="complete"} 0)"));
}

TEST_CASE("a rare pair of verdict and code appears once it happens") {
    Metrics metrics;
    translate::Translation left;
    left.diagnostics = {saying(translate::Code::opted_out)};
    const std::string series = R"(drawbridge_reviews_total{verdict="leave",code="opted-out"})";
    CHECK(metrics.render(0, translate::Features::complete).find(series) == std::string::npos);
    metrics.count_review(left);
    CHECK(has(metrics.render(0, translate::Features::complete), series + " 1"));
}
