// The part of base/json.hpp that makes text: writer, escaping, indentation.

#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>

namespace drawbridge::base {
namespace {

bool is_plain(unsigned char c) {
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

void append_escaped(std::string& out, unsigned char c) {
    switch (c) {
        case '"':
            out += "\\\"";
            break;
        case '\\':
            out += "\\\\";
            break;
        case '\b':
            out += "\\b";
            break;
        case '\f':
            out += "\\f";
            break;
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
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    }
}

std::size_t skip_space(std::string_view json, std::size_t at) {
    while (at < json.size() && is_space(json[at]))
        ++at;
    return at;
}

/// The end of the quoted string that begins at `at`, behind its closing quote.
std::size_t string_end(std::string_view json, std::size_t at) {
    for (++at; at < json.size(); ++at) {
        if (json[at] == '"') return at + 1;
        if (json[at] == '\\') ++at;
    }
    return json.size();
}

void break_line(std::string& out, std::size_t depth) {
    out.append(1, '\n').append(2 * depth, ' ');
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
    out += '"';
    while (!text.empty()) {
        std::size_t plain = 0;
        while (plain < text.size() && is_plain(static_cast<unsigned char>(text[plain])))
            ++plain;
        out += text.substr(0, plain);
        text.remove_prefix(plain);
        if (text.empty()) break;
        const auto c = static_cast<unsigned char>(text.front());
        const std::size_t length = utf8_sequence_length(text);
        if (c < 0x80) {
            append_escaped(out, c);
        } else if (length == 0) {
            out += "\xEF\xBF\xBD";
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    out += '"';
}

std::string indent_json(std::string_view json, std::size_t depth) {
    std::string out;
    out.reserve(json.size() * 2);
    for (std::size_t at = skip_space(json, 0); at < json.size(); at = skip_space(json, at)) {
        const char c = json[at];
        if (c == '{' || c == '[') {
            const std::size_t next = skip_space(json, at + 1);
            out += c;
            at += 1;
            if (next < json.size() && json[next] == (c == '{' ? '}' : ']')) {
                out += json[next];
                at = next + 1;
            } else {
                break_line(out, ++depth);
            }
        } else if (c == '}' || c == ']') {
            if (depth > 0) --depth;
            break_line(out, depth);
            out += c;
            at += 1;
        } else if (c == ',') {
            out += c;
            break_line(out, depth);
            at += 1;
        } else if (c == ':') {
            out += ": ";
            at += 1;
        } else if (c == '"') {
            const std::size_t end = string_end(json, at);
            out += json.substr(at, end - at);
            at = end;
        } else {
            out += c;
            at += 1;
        }
    }
    return out;
}

void JsonWriter::separate() {
    if (after_key_) {
        after_key_ = false;
    } else if (!first_) {
        text_ += ',';
    }
    first_ = false;
}

JsonWriter& JsonWriter::begin_object() {
    separate();
    text_ += '{';
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::end_object() {
    text_ += '}';
    first_ = false;
    return *this;
}

JsonWriter& JsonWriter::begin_array() {
    separate();
    text_ += '[';
    first_ = true;
    return *this;
}

JsonWriter& JsonWriter::end_array() {
    text_ += ']';
    first_ = false;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    separate();
    append_json_string(text_, name);
    text_ += ':';
    after_key_ = true;
    return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
    separate();
    append_json_string(text_, text);
    return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) {
    separate();
    fmt::format_to(std::back_inserter(text_), "{}", value);
    return *this;
}

JsonWriter& JsonWriter::number(double value) {
    if (!std::isfinite(value)) return null();  // JSON has no word for it
    separate();
    append_go_number(text_, value);
    return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
    return raw(value ? "true" : "false");
}

JsonWriter& JsonWriter::null() {
    return raw("null");
}

JsonWriter& JsonWriter::raw(std::string_view json) {
    separate();
    text_ += json;
    return *this;
}

JsonWriter& JsonWriter::member(std::string_view name, std::string_view text) {
    return key(name).string(text);
}

}  // namespace drawbridge::base
