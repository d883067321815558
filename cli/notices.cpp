#include "cli/notices.hpp"

#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace drawbridge::cli {

namespace {

using translate::Severity;
using translate::Verdict;

void write_place(base::JsonWriter& writer, const Origin& origin, const Identity& identity) {
    writer.member("file", origin.file);
    writer.key("document").integer(static_cast<std::int64_t>(origin.document));
    if (origin.item) writer.key("item").integer(static_cast<std::int64_t>(*origin.item));
    writer.member("kind", identity.kind);
    if (!identity.name_space.empty()) writer.member("namespace", identity.name_space);
    if (!identity.name.empty()) writer.member("name", identity.name);
    if (!identity.generate_name.empty()) writer.member("generateName", identity.generate_name);
}

/// Takes the number behind the last colon from `place`.
std::optional<std::int64_t> take_number(std::string_view& place) {
    const std::size_t colon = place.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    const std::string_view digits = place.substr(colon + 1);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    place = place.substr(0, colon);
    return number;
}

/// The place of a failure: `FILE`, or `FILE:LINE:COLUMN`.
void write_place(base::JsonWriter& writer, std::string_view place) {
    if (place.empty()) return;
    std::string_view file = place;
    const auto column = take_number(file);
    const auto line = column ? take_number(file) : std::nullopt;
    writer.member("file", line ? file : place);
    if (line) writer.key("line").integer(*line).key("column").integer(*column);
}

/// `pods.yaml, document 2, Deployment serve`
std::string place_text(const Origin& origin, const Identity& identity) {
    std::string text = fmt::format("{}, document {}", origin.file, origin.document);
    if (origin.item) text += fmt::format(", item {}", *origin.item);
    const std::string& name = identity.name.empty() ? identity.generate_name : identity.name;
    return text + fmt::format(", {} {}", identity.kind.empty() ? "object" : identity.kind, name);
}

/// User text on a terminal: control characters must not reach it.
std::string printable(std::string_view text) {
    std::string result;
    for (const char byte : text) {
        const auto code = static_cast<unsigned char>(byte);
        if (code < 0x20 || code == 0x7f) {
            result += fmt::format("\\x{:02x}", code);
        } else {
            result += byte;
        }
    }
    return result;
}

std::string_view colour_of(Severity severity) {
    switch (severity) {
        case Severity::denied:
            return "\033[31m";
        case Severity::warning:
            return "\033[33m";
        case Severity::note:
            return "\033[36m";
    }
    return "";
}

/// Whether the message names the file already, as those of `base::read_file` do.
bool says_its_place(const base::Error& error) {
    return error.path.empty() || error.message.find(" " + error.path) != std::string::npos ||
           error.message.starts_with(error.path);
}

}  // namespace

void Notices::diagnostic(const Origin& origin, const Identity& identity,
                         const translate::Diagnostic& diagnostic) {
    if (form_ == NoticeForm::json) {
        base::JsonWriter writer;
        writer.begin_object().member("severity", translate::name(diagnostic.severity));
        writer.member("code", translate::name(diagnostic.code));
        write_place(writer, origin, identity);
        if (!diagnostic.container.empty()) writer.member("container", diagnostic.container);
        writer.member("path", diagnostic.path).member("message", diagnostic.message);
        if (!diagnostic.fix.empty()) writer.member("fix", diagnostic.fix);
        text_ += writer.end_object().take() + "\n";
        return;
    }
    const std::string_view on = colour_ ? colour_of(diagnostic.severity) : "";
    const std::string place = diagnostic.path.empty() ? "" : ", " + printable(diagnostic.path);
    text_ += fmt::format("{}{}{}: {} [{}]\n    at {}{}\n", on, translate::name(diagnostic.severity),
                         colour_ ? "\033[0m" : "", printable(diagnostic.message),
                         translate::name(diagnostic.code), printable(place_text(origin, identity)),
                         place);
    if (!diagnostic.fix.empty()) text_ += "    fix: " + printable(diagnostic.fix) + "\n";
}

void Notices::verdict(const Origin& origin, const Identity& identity, Verdict verdict) {
    if (form_ == NoticeForm::json) {
        base::JsonWriter writer;
        writer.begin_object().member("verdict", translate::name(verdict));
        write_place(writer, origin, identity);
        text_ += writer.end_object().take() + "\n";
    } else if (verdict == Verdict::deny) {
        text_ += fmt::format("left out: {}\n", printable(place_text(origin, identity)));
    }
}

void Notices::failure(const base::Error& error) {
    if (form_ == NoticeForm::json) {
        base::JsonWriter writer;
        writer.begin_object().member("severity", "error");
        write_place(writer, error.path);
        text_ += writer.member("message", error.message).end_object().take() + "\n";
        return;
    }
    const std::string place = says_its_place(error) ? "" : printable(error.path) + ": ";
    for (std::string_view rest = error.message; !rest.empty();) {
        const auto line = rest.substr(0, rest.find('\n'));
        text_ += "drawbridge: " + place + printable(line) + "\n";
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
}

}  // namespace drawbridge::cli
