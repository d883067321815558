// The part of base/json.hpp that makes text: writer, escaping, indentation.

#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace drawbridge::base {
namespace {

bool is_space(char c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// What stands behind the backslash for each ASCII character that has a short escape; else NUL.
constexpr std::array<char, 256> short_escapes = [] {
    std::array<char, 256> out{};
    constexpr std::string_view named = "\"\\\b\f\n\r\t";
    constexpr std::string_view letters = "\"\\bfnrt";
    for (std::size_t i = 0; i < named.size(); ++i)
        out[static_cast<unsigned char>(named[i])] = letters[i];
    return out;
}();

/// Bytes that each ASCII character takes inside a JSON string.
constexpr std::array<std::uint8_t, 256> escaped_sizes = [] {
    std::array<std::uint8_t, 256> out{};
    for (std::size_t c = 0; c < out.size(); ++c)
        out[c] = short_escapes[c] != 0 ? 2 : c < 0x20 ? 6 : 1;
    return out;
}();

/// Appends ASCII text. Writes in place: an annotation that holds JSON has an escape every few
/// bytes.
void append_ascii(std::string& out, std::string_view text) {
    std::size_t size = 0;
    for (const char c : text)
        size += escaped_sizes[static_cast<unsigned char>(c)];
    if (size == text.size()) {
        out += text;
        return;
    }
    std::size_t at = out.size();
    out.resize(at + size);
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (escaped_sizes[byte] == 1) {
            out[at++] = c;
        } else if (escaped_sizes[byte] == 2) {
            out[at++] = '\\';
            out[at++] = short_escapes[byte];
        } else {
            fmt::format_to_n(&out[at], 6, "\\u{:04x}", byte);
            at += 6;
        }
    }
}

/// How many bytes at the beginning need no escape; counts in steps of eight, so perhaps a few less.
std::size_t plain_prefix(std::string_view text) {
    constexpr std::uint64_t ones = 0x0101010101010101U;
    constexpr std::uint64_t high = ones * 0x80U;
    const auto zero_bytes = [](std::uint64_t word) { return (word - ones) & ~word; };
    std::size_t at = 0;
    for (; text.size() - at >= sizeof(std::uint64_t); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + at, sizeof word);
        const std::uint64_t outside = word | (word - ones * 0x20U);  // of 0x20 to 0x7F
        const std::uint64_t quote = zero_bytes(word ^ (ones * '"'));
        const std::uint64_t backslash = zero_bytes(word ^ (ones * '\\'));
        if (((outside | quote | backslash) & high) != 0) break;
    }
    return at;
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
    const std::size_t plain = plain_prefix(text);
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    while (!text.empty()) {
        const auto foreign = std::ranges::find_if(
            text, [](char c) { return (static_cast<unsigned char>(c) & 0x80U) != 0; });
        const auto ascii = static_cast<std::size_t>(foreign - text.begin());
        append_ascii(out, text.substr(0, ascii));
        text.remove_prefix(ascii);
        if (text.empty()) break;
        const std::size_t length = utf8_sequence_length(text);
        out += length == 0 ? "\xEF\xBF\xBD" : text.substr(0, length);
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
