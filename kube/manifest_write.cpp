#include "kube/manifest_write.hpp"

#include "base/text.hpp"
#include "kube/manifest.hpp"
#include "kube/manifest_scalar.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>

namespace drawbridge::kube {
namespace {

using base::JsonView;

// A key that is longer needs the form `? key`; libyaml's limit is 1024 characters.
constexpr std::size_t max_simple_key = 256;

/// What YAML 1.1 lets stand in a scalar without an escape.
bool is_printable(std::uint32_t code) {
    return (code >= 0x20 && code < 0x7F) ||
           (code >= 0xA0 && code < 0xD800 && code != 0x2028 && code != 0x2029) ||
           (code >= 0xE000 && code < 0xFFFE && code != 0xFEFF) || code > 0xFFFF;
}

/// Takes the first character of `text`, whose UTF-8 is good.
std::uint32_t take_character(std::string_view& text, std::size_t& length) {
    length = std::max<std::size_t>(base::utf8_sequence_length(text), 1);
    const auto first = static_cast<unsigned char>(text.front());
    std::uint32_t code = length == 1 ? first : first & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        code = code << 6U | (static_cast<unsigned char>(text[i]) & 0x3FU);
    }
    text.remove_prefix(length);
    return code;
}

/// Whether a text can be written as lines below `|` and be read back exactly.
bool is_literal_text(std::string_view text) {
    if (text.find('\n') == std::string_view::npos || text.ends_with("\n\n")) return false;
    if (text.front() == ' ' || text.front() == '\n' || text.front() == '\t') return false;
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        const bool is_blank = line.find_first_not_of(" \t") == std::string_view::npos;
        if (is_blank && !line.empty()) return false;
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
    for (std::string_view rest = text; !rest.empty();) {
        std::size_t length = 0;
        const std::uint32_t code = take_character(rest, length);
        if (code != '\n' && code != '\t' && !is_printable(code)) return false;
    }
    return true;
}

void break_line(std::string& out, const YamlLayout& layout, std::size_t column) {
    out.append(layout.line_break).append(column, ' ');
}

void append_literal(std::string& out, std::string_view text, const YamlLayout& layout,
                    std::size_t column) {
    out += text.ends_with('\n') ? "|" : "|-";
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        if (line.empty()) {
            out += layout.line_break;
        } else {
            break_line(out, layout, column);
            out += line;
        }
        text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
}

void append_scalar(std::string& out, JsonView value, const YamlLayout& layout) {
    const auto text = value.as_string();
    if (!text) {
        out += value.is_missing() ? "null" : value.to_json();  // empty collections, too
    } else if (is_literal_text(*text)) {
        append_literal(out, *text, layout, std::max<std::size_t>(layout.column, 1));
    } else if (is_safe_plain(*text)) {
        out += *text;
    } else {
        append_yaml_quoted(out, *text);
    }
}

void append_sequence(std::string& out, JsonView value, const YamlLayout& layout) {
    YamlLayout inner = layout;
    inner.column += 2;
    for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) break_line(out, layout, layout.column);
        out += "- ";
        append_yaml_block(out, value.at(i), inner);
    }
}

/// Whether single quotes, inside which nothing is escaped, spare the text from backslashes.
bool is_better_single_quoted(std::string_view text) {
    if (text.find_first_of("\"\\") == std::string_view::npos) return false;
    if (text.find('\'') != std::string_view::npos) return false;
    while (!text.empty()) {
        std::size_t length = 0;
        if (!is_printable(take_character(text, length))) return false;
    }
    return true;
}

}  // namespace

void append_yaml_quoted(std::string& out, std::string_view text) {
    if (is_better_single_quoted(text)) {
        out.append(1, '\'').append(text).append(1, '\'');
        return;
    }
    out += '"';
    while (!text.empty()) {
        const std::string_view before = text;
        std::size_t length = 0;
        const std::uint32_t code = take_character(text, length);
        if (code == '"' || code == '\\') {
            out.append(1, '\\').append(1, static_cast<char>(code));
        } else if (code == '\n') {
            out += "\\n";
        } else if (code == '\t') {
            out += "\\t";
        } else if (is_printable(code)) {
            out += before.substr(0, length);
        } else {
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
        }
    }
    out += '"';
}

void append_yaml_flow(std::string& out, JsonView value) {
    if (value.is_array()) {
        std::string_view before = "[";
        for (std::size_t i = 0; i < value.size(); ++i) {
            out += before;
            append_yaml_flow(out, value.at(i));
            before = ", ";
        }
        out += value.size() == 0 ? "[]" : "]";
    } else if (value.is_object()) {
        std::string_view before = "{";
        for (const auto& [key, member] : value.members()) {
            out += before;
            append_yaml_quoted(out, key);
            out += ": ";
            append_yaml_flow(out, member);
            before = ", ";
        }
        out += before == "{" ? "{}" : "}";
    } else if (const auto text = value.as_string()) {
        append_yaml_quoted(out, *text);
    } else {
        out += value.to_json();
    }
}

bool is_yaml_block(JsonView value) {
    return value.size() > 0 || !value.members().empty();
}

// Recursion is bounded by the depth of a parsed document.
void append_yaml_block(std::string& out, JsonView value, const YamlLayout& layout) {
    if (!is_yaml_block(value)) return append_scalar(out, value, layout);
    if (value.is_array()) return append_sequence(out, value, layout);
    bool is_first = true;
    for (const auto& [key, member] : value.members()) {
        if (!is_first) break_line(out, layout, layout.column);
        is_first = false;
        append_yaml_member(out, key, member, layout);
    }
}

void append_yaml_member(std::string& out, std::string_view key, JsonView value,
                        const YamlLayout& layout) {
    const bool is_simple = key.size() <= max_simple_key;
    if (!is_simple) out += "? ";
    if (is_simple && is_safe_plain(key)) {
        out += key;
    } else {
        append_yaml_quoted(out, key);
    }
    if (!is_simple) break_line(out, layout, layout.column);
    out += ':';
    YamlLayout inner = layout;
    inner.column += value.is_array() ? layout.sequence_indent : 2;
    if (is_yaml_block(value)) {
        break_line(out, inner, inner.column);
    } else {
        out += ' ';
    }
    append_yaml_block(out, value, inner);
}

std::string json_to_yaml(std::string_view json, std::size_t indent) {
    constexpr std::size_t any = std::numeric_limits<std::size_t>::max();
    const base::JsonLimits limits{any, 512, any};
    const auto document = base::parse_json(std::string(json), limits);
    if (!document) return std::string(json);
    std::string out(indent, ' ');
    append_yaml_block(out, document->root(), {.column = indent});
    return out += '\n';
}

}  // namespace drawbridge::kube
