#include "server/review_log.hpp"

#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

namespace drawbridge::server {
namespace {

using base::Field;
using base::JsonView;
using base::Level;

std::int64_t micros(std::chrono::nanoseconds took) {
    return std::chrono::duration_cast<std::chrono::microseconds>(took).count();
}

/// `Kind/name` of the controller that made the pod; empty if there is none.
std::string owner_of(JsonView pod) {
    const JsonView owners = pod["metadata"]["ownerReferences"];
    for (std::size_t i = 0; i < owners.size(); ++i) {
        const JsonView owner = owners.at(i);
        if (owner["controller"].as_bool() != true) continue;
        return fmt::format("{}/{}", owner["kind"].string_or(""), owner["name"].string_or(""));
    }
    return {};
}

/// The codes of all diagnostics, each once, in their order.
std::string codes_of(const translate::Diagnostics& diagnostics) {
    std::vector<std::string_view> codes;
    for (const translate::Diagnostic& diagnostic : diagnostics) {
        const std::string_view code = translate::name(diagnostic.code);
        if (std::ranges::find(codes, code) == codes.end()) codes.push_back(code);
    }
    return fmt::format("{}", fmt::join(codes, ","));
}

std::string names_of(const std::vector<kube::ClaimTemplate>& templates) {
    std::string names;
    for (const kube::ClaimTemplate& claim_template : templates) {
        if (!names.empty()) names += ',';
        names += claim_template.name;
    }
    return names;
}

void log_line(const AdmissionRequest& review, std::string_view verdict, std::string_view codes,
              std::string_view templates, std::chrono::nanoseconds took) {
    const JsonView metadata = review.pod["metadata"];
    const std::string_view given =
        review.name.empty() ? metadata["name"].string_or("") : review.name;
    const Field name = given.empty()
                           ? Field{"generate_name", metadata["generateName"].string_or("")}
                           : Field{"name", given};
    const std::string owner = owner_of(review.pod);
    base::log_event(Level::info, "admission",
                    {{"uid", review.uid},
                     {"namespace", review.name_space},
                     name,
                     {"owner", owner},
                     {"operation", review.operation},
                     {"verdict", verdict},
                     {"codes", codes},
                     {"templates", templates},
                     {"micros", micros(took)},
                     {"dry_run", review.dry_run}});
}

}  // namespace

void log_review(const AdmissionRequest& review, const translate::Translation& translation,
                std::chrono::nanoseconds took) {
    if (!base::log_enabled(Level::info)) return;
    log_line(review, translate::name(translation.verdict), codes_of(translation.diagnostics),
             names_of(translation.templates), took);
    if (!base::log_enabled(Level::debug)) return;
    for (const translate::Diagnostic& diagnostic : translation.diagnostics) {
        base::log_event(Level::debug, "diagnostic",
                        {{"uid", review.uid},
                         {"severity", translate::name(diagnostic.severity)},
                         {"code", translate::name(diagnostic.code)},
                         {"path", diagnostic.path},
                         {"message", diagnostic.message}});
    }
}

void log_untouched(const AdmissionRequest& review, std::chrono::nanoseconds took) {
    if (base::log_enabled(Level::info)) log_line(review, "leave", "", "", took);
}

void log_failure(std::string_view why, const HttpAnswer& answer, std::chrono::nanoseconds took) {
    base::log_event(Level::warn, "admission",
                    {{"verdict", "error"},
                     {"codes", why},
                     {"status", std::int64_t{answer.status}},
                     {"reason", answer.body},
                     {"micros", micros(took)}});
}

}  // namespace drawbridge::server
