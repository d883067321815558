#include "server/metrics.hpp"

#include "base/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace drawbridge::server {
namespace {

using translate::Verdict;

constexpr auto relaxed = std::memory_order_relaxed;
constexpr Verdict verdicts[] = {Verdict::leave, Verdict::translate, Verdict::deny};

constexpr auto head = base::append_metric_head;
constexpr auto series = base::append_series;
using base::value_of;

/// Whether a series is there from the start: what a site will want to watch.
bool is_likely(Verdict verdict, const translate::CodeInfo* code) {
    if (code == nullptr) return verdict != Verdict::deny;
    switch (code->severity) {
        case translate::Severity::denied:
            return verdict == Verdict::deny;
        case translate::Severity::warning:
            return verdict == Verdict::translate;
        case translate::Severity::note:
            return false;
    }
    return false;
}

void reload_series(std::string& out, std::string_view name, std::string_view help,
                   const Reloads& reloads) {
    head(out, name, "counter", help);
    series(out, name, R"(result="success")", value_of(reloads.success));
    series(out, name, R"(result="failure")", value_of(reloads.failure));
}

}  // namespace

void Metrics::count_review(const translate::Translation& translation) {
    const auto& diagnostics = translation.diagnostics;
    const std::size_t code =
        diagnostics.empty() ? code_count : static_cast<std::size_t>(diagnostics.front().code);
    reviews_[static_cast<std::size_t>(translation.verdict)][code].fetch_add(1, relaxed);
    for (const translate::Diagnostic& diagnostic : diagnostics) {
        diagnostics_[static_cast<std::size_t>(diagnostic.code)].fetch_add(1, relaxed);
    }
}

void Metrics::count_untouched() {
    reviews_[static_cast<std::size_t>(Verdict::leave)][code_count].fetch_add(1, relaxed);
}

void Metrics::count_failure(ReviewFailure failure) {
    failures_[static_cast<std::size_t>(failure)].fetch_add(1, relaxed);
}

void Metrics::count_http_failure(int status) {
    const auto found = std::ranges::find(failure_statuses, status);
    if (found == failure_statuses.end()) return;
    http_failures_[static_cast<std::size_t>(found - failure_statuses.begin())].fetch_add(1,
                                                                                         relaxed);
}

void Metrics::count_template_write(TemplateWrite result) {
    template_writes_[static_cast<std::size_t>(result)].fetch_add(1, relaxed);
}

void Metrics::render_reviews(std::string& out) const {
    constexpr std::string_view reviews = "drawbridge_reviews_total";
    head(out, reviews, "counter", "Reviews by verdict and worst code.");
    for (const Verdict verdict : verdicts) {
        const auto& by_code = reviews_[static_cast<std::size_t>(verdict)];
        for (std::size_t code = 0; code <= code_count; ++code) {
            const auto* const info = code < code_count ? &translate::all_codes()[code] : nullptr;
            const std::int64_t value = value_of(by_code[code]);
            if (value == 0 && !is_likely(verdict, info)) continue;
            series(out, reviews,
                   fmt::format(R"(verdict="{}",code="{}")", translate::name(verdict),
                               info == nullptr ? "none" : info->name),
                   value);
        }
    }
    for (std::size_t i = 0; i < failures_.size(); ++i) {
        series(out, reviews, fmt::format(R"(verdict="error",code="{}")", review_failures[i]),
               value_of(failures_[i]));
    }
    constexpr std::string_view duration = "drawbridge_review_duration_seconds";
    head(out, duration, "histogram", "Time from the whole request to its answer, in seconds.");
    review_duration.render(out, duration);
    head(out, "drawbridge_reviews_in_flight", "gauge", "Reviews being answered.");
    series(out, "drawbridge_reviews_in_flight", "", reviews_in_flight.load(relaxed));
}

void Metrics::render_diagnostics(std::string& out) const {
    constexpr std::string_view name = "drawbridge_diagnostics_total";
    head(out, name, "counter", "Diagnostics in answered reviews.");
    for (std::size_t code = 0; code < code_count; ++code) {
        series(out, name, fmt::format(R"(code="{}")", translate::all_codes()[code].name),
               value_of(diagnostics_[code]));
    }
}

void Metrics::render_connections(std::string& out) const {
    head(out, "drawbridge_connections", "gauge", "Open connections of the admission port.");
    series(out, "drawbridge_connections", "", connections.load(relaxed));
    head(out, "drawbridge_connections_refused_total", "counter",
         "Connections closed at once, since too many were open or no certificate was loaded.");
    series(out, "drawbridge_connections_refused_total", "", value_of(connections_refused));
    constexpr std::string_view failures = "drawbridge_http_failures_total";
    head(out, failures, "counter", "HTTP answers of the admission port other than 200.");
    for (std::size_t i = 0; i < failure_statuses.size(); ++i) {
        series(out, failures, fmt::format(R"(status="{}")", failure_statuses[i]),
               value_of(http_failures_[i]));
    }
}

void Metrics::render_reloads(std::string& out) const {
    constexpr std::string_view expiry = "drawbridge_certificate_expiry_seconds";
    head(out, expiry, "gauge", "When the certificate ends, as Unix time; 0 where there is none.");
    series(out, expiry, R"(kind="leaf")", leaf_expiry.load(relaxed));
    series(out, expiry, R"(kind="ca")", ca_expiry.load(relaxed));
    reload_series(out, "drawbridge_certificate_reloads_total",
                  "Changes of the certificate files, taken into use or refused.",
                  certificate_reloads);
    reload_series(out, "drawbridge_settings_reloads_total",
                  "Changes of the settings file, taken into use or refused.", settings_reloads);
}

std::string Metrics::render(std::size_t templates, translate::Features features) const {
    std::string out;
    out.reserve(16U << 10U);
    render_reviews(out);
    render_diagnostics(out);
    constexpr std::string_view writes = "drawbridge_template_writes_total";
    head(out, writes, "counter", "Attempts to have a template in the store.");
    for (const TemplateWrite result : template_writes) {
        series(out, writes, fmt::format(R"(result="{}")", name(result)),
               value_of(template_writes_[static_cast<std::size_t>(result)]));
    }
    head(out, "drawbridge_templates", "gauge", "Templates known to this process.");
    series(out, "drawbridge_templates", "", static_cast<std::int64_t>(templates));
    constexpr std::string_view cluster = "drawbridge_cluster_features";
    head(out, cluster, "gauge", "1 for what the cluster was found able to do.");
    const auto is = [&](translate::Features wanted) { return features == wanted ? 1 : 0; };
    series(out, cluster, R"(state="complete")", is(translate::Features::complete));
    series(out, cluster, R"(state="gate-off")", is(translate::Features::gate_off));
    series(out, cluster, R"(state="server-too-old")", is(translate::Features::too_old));
    render_reloads(out);
    render_connections(out);
    constexpr std::string_view build = "drawbridge_build_info";
    head(out, build, "gauge", "The version of this build; always 1.");
    series(out, build, fmt::format(R"(version="{}")", base::version), 1);
    return out;
}

}  // namespace drawbridge::server
