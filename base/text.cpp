#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

namespace drawbridge::base {
namespace {

bool is_continuation(unsigned char byte) {
    return (byte & 0xC0U) == 0x80U;
}

}  // namespace

std::size_t utf8_sequence_length(std::string_view text) {
    const auto byte = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned char>(text[i])
                               : static_cast<unsigned char>(0);
    };
    if (text.empty()) return 0;
    const unsigned char first = byte(0);
    const unsigned char second = byte(1);
    if (first < 0x80) return 1;
    if (first < 0xC2 || !is_continuation(second)) return 0;
    if (first < 0xE0) return 2;
    if (!is_continuation(byte(2))) return 0;
    if (first < 0xF0) {
        const bool overlong = first == 0xE0 && second < 0xA0;
        const bool surrogate = first == 0xED && second >= 0xA0;
        return overlong || surrogate ? 0 : 3;
    }
    if (first > 0xF4 || !is_continuation(byte(3))) return 0;
    const bool overlong = first == 0xF0 && second < 0x90;
    const bool too_large = first == 0xF4 && second >= 0x90;
    return overlong || too_large ? 0 : 4;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = utf8_sequence_length(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

std::size_t find_no_json(std::string_view text) {
    constexpr std::uint64_t ones = 0x0101010101010101U;
    constexpr std::uint64_t high = ones * 0x80U;
    std::size_t at = 0;
    while (at < text.size()) {
        if (text.size() - at >= sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, text.data() + at, sizeof word);
            if (((word | (word - ones * 0x20U)) & high) == 0) {  // eight bytes of 0x20 to 0x7F
                at += sizeof word;
                continue;
            }
        }
        const auto c = static_cast<unsigned char>(text[at]);
        if (c < 0x20 && c != '\n' && c != '\r' && c != '\t') return at;
        const std::size_t length = utf8_sequence_length(text.substr(at));
        if (length == 0) return at;
        at += length;
    }
    return at;
}

void append_go_number(std::string& out, double value) {
    std::array<char, 32> buffer{};
    const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                       std::chars_format::scientific);
    std::string_view text(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
    if (text.front() == '-') {
        out += '-';
        text.remove_prefix(1);
    }
    const std::size_t mark = text.find('e');
    std::string digits(text.substr(0, mark));
    if (digits.size() > 1) digits.erase(1, 1);  // the point
    int exponent = 0;
    const char* exponent_text = text.data() + mark + (text[mark + 1] == '+' ? 2 : 1);
    std::from_chars(exponent_text, text.data() + text.size(), exponent);

    const double magnitude = std::fabs(value);
    if (magnitude != 0 && (magnitude < 1e-6 || magnitude >= 1e21)) {
        out += text.substr(0, mark);
        out += exponent < 0 ? "e" : "e+";
        out += std::to_string(exponent);
    } else if (exponent < 0) {
        out += "0.";
        out.append(static_cast<std::size_t>(-exponent - 1), '0');
        out += digits;
    } else {
        const auto whole = static_cast<std::size_t>(exponent) + 1;
        if (digits.size() < whole) digits.append(whole - digits.size(), '0');
        out.append(digits, 0, whole);
        if (digits.size() > whole) out.append(1, '.').append(digits, whole);
    }
}

bool is_go_true(std::string_view text) {
    constexpr std::array words = {"1", "t", "T", "true", "TRUE", "True"};
    return std::ranges::find(words, text) != words.end();
}

std::string_view trim(std::string_view text) {
    static constexpr std::array<std::string_view, 25> spaces = {" ",
                                                                "\t",
                                                                "\n",
                                                                "\v",
                                                                "\f",
                                                                "\r",
                                                                "\xC2\x85",
                                                                "\xC2\xA0",
                                                                "\xE1\x9A\x80",
                                                                "\xE2\x80\x80",
                                                                "\xE2\x80\x81",
                                                                "\xE2\x80\x82",
                                                                "\xE2\x80\x83",
                                                                "\xE2\x80\x84",
                                                                "\xE2\x80\x85",
                                                                "\xE2\x80\x86",
                                                                "\xE2\x80\x87",
                                                                "\xE2\x80\x88",
                                                                "\xE2\x80\x89",
                                                                "\xE2\x80\x8A",
                                                                "\xE2\x80\xA8",
                                                                "\xE2\x80\xA9",
                                                                "\xE2\x80\xAF",
                                                                "\xE2\x81\x9F",
                                                                "\xE3\x80\x80"};
    const auto at_front = [&](std::string_view space) { return text.starts_with(space); };
    const auto at_back = [&](std::string_view space) { return text.ends_with(space); };
    for (auto space = std::ranges::find_if(spaces, at_front); space != spaces.end();
         space = std::ranges::find_if(spaces, at_front))
        text.remove_prefix(space->size());
    for (auto space = std::ranges::find_if(spaces, at_back); space != spaces.end();
         space = std::ranges::find_if(spaces, at_back))
        text.remove_suffix(space->size());
    return text;
}

std::string lower_ascii(std::string_view text) {
    std::string result(text);
    for (char& letter : result) {
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    return result;
}

std::string upper_ascii(std::string_view text) {
    std::string result(text);
    for (char& letter : result) {
        if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    return result;
}

std::string shortened(std::string_view text, std::size_t max) {
    if (text.size() <= max) return std::string(text);
    std::size_t end = max;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
        --end;
    return std::string(text.substr(0, end)) + "...";
}

const std::string_view* find_repeated(std::string_view* begin, std::string_view* end) {
    constexpr std::ptrdiff_t few = 12;
    if (end - begin <= few) {
        for (auto* later = begin; later != end; ++later) {
            if (std::find(begin, later, *later) != later) return later;
        }
        return nullptr;
    }
    std::sort(begin, end, [](std::string_view a, std::string_view b) {
        if (a.size() != b.size()) return a.size() < b.size();
        const int order = a.compare(b);
        return order != 0 ? order < 0 : std::less<>()(a.data(), b.data());
    });
    auto* const twice = std::adjacent_find(begin, end);
    return twice == end ? nullptr : twice + 1;
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
    std::vector<std::size_t> row(right.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < left.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < right.size(); ++j) {
            const std::size_t replaced = diagonal + (left[i] == right[j] ? 0 : 1);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
        }
    }
    return row.back();
}

}  // namespace drawbridge::base
