#include "base/text.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::base {
namespace {

std::string encode(char32_t c) {
    const auto tail = [&](unsigned shift) {
        return static_cast<char>(0x80U | ((c >> shift) & 0x3FU));
    };
    if (c < 0x80) return {static_cast<char>(c)};
    if (c < 0x800) return {static_cast<char>(0xC0U | (c >> 6U)), tail(0)};
    if (c < 0x10000) return {static_cast<char>(0xE0U | (c >> 12U)), tail(6), tail(0)};
    return {static_cast<char>(0xF0U | (c >> 18U)), tail(12), tail(6), tail(0)};
}

TEST_CASE("every code point but the surrogates is UTF-8") {
    std::size_t wrong = 0;
    for (char32_t c = 0; c < 0x120000; ++c) {
        const std::string text = encode(c);
        const bool valid = c < 0x110000 && (c < 0xD800 || c > 0xDFFF);
        if (utf8_sequence_length(text + "x") != (valid ? text.size() : 0)) ++wrong;
        if (valid && text.size() > 1 && is_utf8(text.substr(0, text.size() - 1))) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK(utf8_sequence_length("") == 0);
    CHECK(is_utf8(""));
}

TEST_CASE("a number's text reads back as the same number") {
    std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): the same numbers in every run
    for (int i = 0; i < 20'000; ++i) {
        const double mantissa = std::uniform_real_distribution<>(-10, 10)(random);
        const double value =
            std::ldexp(mantissa, std::uniform_int_distribution<>(-200, 200)(random));
        std::string text;
        append_go_number(text, value);
        REQUIRE(std::strtod(text.c_str(), nullptr) == value);
    }
}

TEST_CASE("the first byte that no JSON holds is found at any offset") {
    for (std::size_t before = 0; before < 20; ++before) {
        for (const std::string bad : {"\x01", "\x1F", "\xFF", "\xC3", "\xED\xA0\x80"}) {
            const std::string text = std::string(before, 'a') + bad + std::string(20, 'b');
            CHECK(find_no_json(text) == before);
        }
        const std::string good = std::string(before, '\n') + "\xF0\x9F\x98\x80\t\x7F\r";
        CHECK(find_no_json(good) == good.size());
    }
    CHECK(find_no_json("") == 0);
    CHECK(find_no_json(std::string_view("\0", 1)) == 0);
}

TEST_CASE("booleans are read as Go reads them") {
    for (const char* text : {"1", "t", "T", "true", "TRUE", "True"})
        CHECK(is_go_true(text));
    for (const char* text : {"", "0", "false", "yes", "tRUE", " true", "true "}) {
        CHECK_FALSE(is_go_true(text));
    }
}

TEST_CASE("white space is taken off the ends as Go takes it off") {
    CHECK(trim("").empty());
    CHECK(trim(" \t\r\n\v\f").empty());
    CHECK(trim(" a b ") == "a b");
    CHECK(trim("\xE3\x80\x80\xC2\xA0 A100\xC2\x85\xE2\x80\xAF\xE2\x80\x8A") == "A100");
    // Zero-width space and joiner are no white space to Go; nor are halves of a character.
    CHECK(trim("\xE2\x80\x8B"
               "a") ==
          "\xE2\x80\x8B"
          "a");
    CHECK(trim("a\xA0") == "a\xA0");
}

TEST_CASE("the case of ASCII letters changes, and of no others") {
    CHECK(lower_ascii("") == "");
    CHECK(lower_ascii("AMZ@[amz0`{\xC3\x84") == "amz@[amz0`{\xC3\x84");
    CHECK(upper_ascii("amz`{AMZ0@[\xC3\xA4") == "AMZ`{AMZ0@[\xC3\xA4");
}

TEST_CASE("a text is shortened between characters") {
    CHECK(shortened("", 3).empty());
    CHECK(shortened("abc", 3) == "abc");
    CHECK(shortened("abcd", 3) == "abc...");
    CHECK(shortened("a\xE2\x82\xACxy", 4) == "a\xE2\x82\xAC...");
    CHECK(shortened("a\xE2\x82\xACxy", 3) == "a...");
    CHECK(shortened("\x80\x80\x80\x80", 3) == "...");  // no character at all
}

TEST_CASE("of many texts the later of two equal ones is found, wherever it stands") {
    for (const std::size_t count : {2U, 3U, 12U, 13U, 200U}) {
        for (std::size_t first = 0; first < count; ++first) {
            for (const std::size_t second : {first + 1, count - 1}) {
                if (second <= first || second >= count) continue;
                std::string storage;
                for (std::size_t i = 0; i < count; ++i) {
                    storage += fmt::format("{:03}", i == second ? first : i);
                }
                std::vector<std::string_view> names;
                for (std::size_t i = 0; i < count; ++i) {
                    names.push_back(std::string_view(storage).substr(3 * i, 3));
                }
                const auto* twice = find_repeated(names.data(), names.data() + names.size());
                REQUIRE(twice != nullptr);
                CHECK(twice->data() == storage.data() + 3 * second);
            }
        }
    }
}

TEST_CASE("texts that differ are not taken for repeated ones") {
    std::vector<std::string> storage;
    for (int i = 0; i < 100; ++i)
        storage.push_back(fmt::format("{}{}", i % 7, i));
    for (const std::size_t count : {0U, 1U, 2U, 12U, 13U, 100U}) {
        std::vector<std::string_view> names(storage.begin(),
                                            storage.begin() + static_cast<std::ptrdiff_t>(count));
        CHECK(find_repeated(names.data(), names.data() + names.size()) == nullptr);
    }
}

TEST_CASE("the edit distance counts changed, added and removed letters") {
    CHECK(edit_distance("", "") == 0);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("abc", "") == 3);
    CHECK(edit_distance("memory", "memory") == 0);
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("sitting", "kitten") == 3);
}

}  // namespace
}  // namespace drawbridge::base
