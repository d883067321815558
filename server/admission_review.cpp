#include "server/admission_review.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::server {
namespace {

using base::JsonView;
using translate::Severity;

constexpr std::string_view api_version = "admission.k8s.io/v1";
constexpr std::string_view kind = "AdmissionReview";

base::Result<std::string_view> text_at(JsonView object, std::string_view key,
                                       std::string_view place) {
    const JsonView value = object[key];
    if (value.is_absent()) return std::string_view{};
    if (const auto text = value.as_string()) return *text;
    return base::fail(base::ErrorKind::invalid_input, "must be a string", std::string(place));
}

base::Result<void> check_envelope(JsonView root) {
    if (!root.is_object()) {
        return base::fail(base::ErrorKind::invalid_input, "an AdmissionReview is a JSON object");
    }
    if (root["apiVersion"].string_or("") != api_version) {
        return base::fail(base::ErrorKind::invalid_input,
                          fmt::format("must be \"{}\", the only version answered", api_version),
                          "/apiVersion");
    }
    if (root["kind"].string_or("") != kind) {
        return base::fail(base::ErrorKind::invalid_input, fmt::format("must be \"{}\"", kind),
                          "/kind");
    }
    if (!root["request"].is_object()) {
        return base::fail(base::ErrorKind::invalid_input, "must be an object", "/request");
    }
    return {};
}

base::Result<void> read_texts(JsonView request, AdmissionRequest& review) {
    const std::pair<std::string_view, std::string_view AdmissionRequest::*> texts[] = {
        {"uid", &AdmissionRequest::uid},
        {"name", &AdmissionRequest::name},
        {"namespace", &AdmissionRequest::name_space},
        {"operation", &AdmissionRequest::operation}};
    for (const auto& [key, member] : texts) {
        const auto text = text_at(request, key, "/request/" + std::string(key));
        if (!text) return tl::unexpected(text.error());
        review.*member = *text;
    }
    if (review.uid.empty()) {
        return base::fail(base::ErrorKind::invalid_input, "must be a string that is not empty",
                          "/request/uid");
    }
    const JsonView dry_run = request["dryRun"];
    if (!dry_run.is_absent() && !dry_run.as_bool()) {
        return base::fail(base::ErrorKind::invalid_input, "must be true or false",
                          "/request/dryRun");
    }
    review.dry_run = dry_run.as_bool().value_or(false);
    return {};
}

bool names_pods(JsonView request) {
    const JsonView resource = request["resource"];
    return resource["group"].string_or("").empty() && resource["version"].string_or("") == "v1" &&
           resource["resource"].string_or("") == "pods" &&
           request["subResource"].string_or("").empty();
}

base::Result<void> read_pods(JsonView request, AdmissionRequest& review) {
    const bool update = review.operation == "UPDATE";
    if (!names_pods(request) || (!update && review.operation != "CREATE")) return {};
    review.pod = request["object"];
    if (!review.pod.is_object()) {
        return base::fail(base::ErrorKind::invalid_input, "must be a pod", "/request/object");
    }
    if (update) {
        review.old_pod = request["oldObject"];
        if (!review.old_pod.is_object()) {
            return base::fail(base::ErrorKind::invalid_input, "must be the pod before the update",
                              "/request/oldObject");
        }
    }
    review.concerns_pod = true;
    return {};
}

/// `text` with control characters written as `\n`, `\u0007` and the like.
void append_escaped(std::string& out, std::string_view text) {
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        switch (c) {
            case '\n':
                out += "\\n";
                break;
            case '\r':
                out += "\\r";
                break;
            case '\t':
                out += "\\t";
                break;
            default:
                if (byte < 0x20 || byte == 0x7f) {
                    out += fmt::format("\\u{:04x}", byte);
                } else {
                    out += c;
                }
        }
    }
}

/// Message, fix and code of a diagnostic, of at most `limit` bytes: what is too long loses its end,
/// never its code, which `drawbridge explain` takes.
std::string line_of(const translate::Diagnostic& diagnostic, std::size_t limit) {
    constexpr std::string_view mark = "...";
    const std::string code = fmt::format(" [{}]", translate::name(diagnostic.code));
    std::string line = one_line(diagnostic);
    if (line.size() + code.size() > limit)
        line = base::shortened(line, limit - code.size() - mark.size());
    return line + code;
}

/// Room for the line that says how many others were left out.
constexpr std::size_t more_room = 64;

/// The lines of one severity, each within `line_limit`, all within `limit` with the separators.
std::vector<std::string> lines_within(const translate::Diagnostics& diagnostics, Severity severity,
                                      std::size_t line_limit, std::size_t limit) {
    std::vector<std::string> lines;
    std::size_t used = 0;
    std::size_t left_out = 0;
    for (const translate::Diagnostic& diagnostic : diagnostics) {
        if (diagnostic.severity != severity) continue;
        std::string line = line_of(diagnostic, line_limit);
        if (left_out > 0 || used + line.size() + 1 > limit - more_room) {
            ++left_out;
            continue;
        }
        used += line.size() + 1;
        lines.push_back(std::move(line));
    }
    if (left_out > 0) lines.push_back(fmt::format("+{} more", left_out));
    return lines;
}

void begin_response(base::JsonWriter& json, std::string_view uid, bool allowed) {
    json.begin_object().member("kind", kind).member("apiVersion", api_version);
    json.key("response").begin_object().member("uid", uid).key("allowed").boolean(allowed);
}

void write_status(base::JsonWriter& json, const translate::Diagnostics& diagnostics) {
    const auto worst =
        std::ranges::find(diagnostics, Severity::denied, &translate::Diagnostic::severity);
    const bool forbidden = worst != diagnostics.end() &&
                           translate::info(worst->code).reason == translate::Reason::forbidden;
    json.key("status").begin_object().member("status", "Failure");
    json.member("message", denial_message(diagnostics));
    json.member("reason", forbidden ? "Forbidden" : "Invalid");
    json.key("code").integer(forbidden ? 403 : 422).end_object();
}

}  // namespace

base::Result<AdmissionRequest> decode_review(std::string body) {
    auto document = base::parse_json(std::move(body));
    if (!document) return tl::unexpected(document.error());
    AdmissionRequest review;
    review.document = std::move(*document);
    const JsonView root = review.document.root();
    if (const auto checked = check_envelope(root); !checked) {
        return tl::unexpected(checked.error());
    }
    const JsonView request = root["request"];
    if (const auto read = read_texts(request, review); !read) return tl::unexpected(read.error());
    if (const auto read = read_pods(request, review); !read) return tl::unexpected(read.error());
    return review;
}

std::string encode_untouched(std::string_view uid) {
    base::JsonWriter json;
    begin_response(json, uid, true);
    json.end_object().end_object();
    return json.take();
}

std::string encode_answer(std::string_view uid, const translate::Translation& translation) {
    const bool denied = translation.verdict == translate::Verdict::deny;
    base::JsonWriter json;
    begin_response(json, uid, !denied);
    if (denied) write_status(json, translation.diagnostics);
    if (!denied && !translation.patch.empty()) {
        json.member("patchType", "JSONPatch");
        json.member("patch", base::base64_encode(translation.patch.to_json()));
    }
    const auto warnings = warning_lines(translation.diagnostics);
    if (!warnings.empty()) {
        json.key("warnings").begin_array();
        for (const std::string& warning : warnings)
            json.string(warning);
        json.end_array();
    }
    json.end_object().end_object();
    return json.take();
}

std::string one_line(const translate::Diagnostic& diagnostic) {
    std::string line;
    append_escaped(line, diagnostic.message);
    if (diagnostic.fix.empty()) return line;
    const char first = diagnostic.fix.front();
    line += first >= 'A' && first <= 'Z' ? ". " : "; ";
    append_escaped(line, diagnostic.fix);
    return line;
}

std::vector<std::string> warning_lines(const translate::Diagnostics& diagnostics) {
    return lines_within(diagnostics, Severity::warning, warning_limit, warnings_limit);
}

std::string denial_message(const translate::Diagnostics& diagnostics) {
    const auto lines =
        lines_within(diagnostics, Severity::denied, denial_limit - more_room - 1, denial_limit);
    return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace drawbridge::server
