#include "cli/check.hpp"

#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::cli {

namespace {

std::string_view word(CheckState state) {
    switch (state) {
        case CheckState::good:
            return "ok";
        case CheckState::unknown:
            return "note";
        case CheckState::bad:
            break;
    }
    return "BAD";
}

std::string json_line(const Finding& finding) {
    base::JsonWriter json;
    json.begin_object().member("state",
                               finding.state == CheckState::bad ? "bad" : word(finding.state));
    json.member("subject", finding.subject).member("text", finding.text);
    if (!finding.fix.empty()) json.member("fix", finding.fix);
    return json.end_object().take() + "\n";
}

}  // namespace

std::string write_findings(const std::vector<Finding>& findings, bool json) {
    std::string out;
    for (const Finding& finding : findings) {
        if (json) {
            out += json_line(finding);
            continue;
        }
        out += fmt::format("{:<5} {:<9} {}\n", word(finding.state), finding.subject, finding.text);
        if (!finding.fix.empty()) out += fmt::format("{:<15} {}\n", "", finding.fix);
    }
    return out;
}

int check_status(const std::vector<Finding>& findings) {
    const bool bad = std::ranges::any_of(
        findings, [](const Finding& finding) { return finding.state == CheckState::bad; });
    return bad ? 2 : 0;
}

}  // namespace drawbridge::cli
