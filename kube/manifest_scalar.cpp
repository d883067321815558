#include "kube/manifest_scalar.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

namespace drawbridge::kube {
namespace {

constexpr std::string_view yaml_prefix = "tag:yaml.org,2002:";

constexpr std::array true_words = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                   "True", "TRUE", "on",  "On",  "ON"};
constexpr std::array false_words = {"n",     "N",     "no",  "No",  "NO", "false",
                                    "False", "FALSE", "off", "Off", "OFF"};
constexpr std::array null_words = {"", "~", "null", "Null", "NULL"};
constexpr std::array infinity_words = {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"};
constexpr std::array minus_infinity_words = {"-.inf", "-.Inf", "-.INF"};
constexpr std::array nan_words = {".nan", ".NaN", ".NAN"};

template <class Words>
bool is_one_of(std::string_view text, const Words& words) {
    return std::ranges::find(words, text) != words.end();
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

Scalar string_scalar(std::string_view text) {
    return {.kind = ScalarKind::string, .text = std::string(text)};
}

Scalar integer_scalar(std::string text) {
    return {.kind = ScalarKind::integer, .text = std::move(text)};
}

Scalar real_scalar(double value) {
    Scalar scalar{ScalarKind::real, {}, value};
    if (std::isfinite(value)) base::append_go_number(scalar.text, value);
    return scalar;
}

/// Words that are no strings.
std::optional<Scalar> resolve_word(std::string_view text) {
    if (is_one_of(text, null_words)) return Scalar{.kind = ScalarKind::null, .text = "null"};
    if (is_one_of(text, true_words)) return Scalar{.kind = ScalarKind::boolean, .text = "true"};
    if (is_one_of(text, false_words)) return Scalar{.kind = ScalarKind::boolean, .text = "false"};
    if (is_one_of(text, infinity_words)) return real_scalar(HUGE_VAL);
    if (is_one_of(text, minus_infinity_words)) return real_scalar(-HUGE_VAL);
    if (is_one_of(text, nan_words)) return real_scalar(std::nan(""));
    return std::nullopt;
}

/// As Go's strconv.ParseInt and ParseUint with base 0 (after `_` is gone) or a given base.
std::optional<std::string> read_integer(std::string_view text, int base) {
    const bool has_sign = !text.empty() && (text.front() == '+' || text.front() == '-');
    const bool is_negative = has_sign && text.front() == '-';
    if (has_sign) text.remove_prefix(1);
    if (base == 0) {
        base = 10;
        if (text.size() > 1 && text.front() == '0') {
            const char letter = static_cast<char>(text[1] | 0x20);
            base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
            text.remove_prefix(letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1);
        }
    }
    std::uint64_t value = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
        return std::nullopt;
    }
    constexpr std::uint64_t least = std::uint64_t{1} << 63U;
    if (has_sign && value > (is_negative ? least : least - 1)) return std::nullopt;
    return fmt::format("{}{}", is_negative && value != 0 ? "-" : "", value);
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
bool has_float_form(std::string_view text) {
    const auto skip_digits = [&text] {
        const std::size_t count = std::min(text.size(), text.find_first_not_of("0123456789"));
        text.remove_prefix(count);
        return count > 0;
    };
    const auto skip_sign = [&text] {
        if (!text.empty() && (text.front() == '+' || text.front() == '-')) text.remove_prefix(1);
    };
    skip_sign();
    const bool has_whole = skip_digits();
    if (!text.empty() && text.front() == '.') {
        text.remove_prefix(1);
        if (!skip_digits() && !has_whole) return false;
    } else if (!has_whole) {
        return false;
    }
    if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
        text.remove_prefix(1);
        skip_sign();
        if (!skip_digits()) return false;
    }
    return text.empty();
}

/// A decimal number as a double; nullopt where it has another form or is too large for one.
std::optional<double> read_real(const std::string& text) {
    if (!has_float_form(text)) return std::nullopt;
    const double value = std::strtod(text.c_str(), nullptr);  // no program of ours sets a locale
    if (std::isinf(value)) return std::nullopt;
    return value;
}

std::string without_underscores(std::string_view text) {
    std::string out(text);
    std::erase(out, '_');
    return out;
}

/// Whether every `_` stands between digits, as Go demands it in a float.
bool has_good_underscores(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') continue;
        if (i == 0 || !is_digit(text[i - 1]) || i + 1 == text.size() || !is_digit(text[i + 1])) {
            return false;
        }
    }
    return true;
}

std::optional<Scalar> resolve_number(std::string_view text) {
    const std::string plain = without_underscores(text);
    if (text.front() == '.') {
        if (!has_good_underscores(text)) return std::nullopt;
        const auto real = read_real(plain);
        return real ? std::optional(real_scalar(*real)) : std::nullopt;
    }
    if (auto integer = read_integer(plain, 0)) return integer_scalar(std::move(*integer));
    if (const auto real = read_real(plain)) return real_scalar(*real);
    if (plain.starts_with("0b")) {  // `0b-11`: the reader takes the sign there too
        if (auto integer = read_integer(std::string_view(plain).substr(2), 2)) {
            return integer_scalar(std::move(*integer));
        }
    }
    return std::nullopt;
}

std::optional<std::string> decode_base64(std::string_view text) {
    std::string out;
    std::uint32_t bits = 0;
    std::size_t sextets = 0;
    std::size_t padding = 0;
    for (const char c : text) {
        if (c == '\n' || c == '\r') continue;
        constexpr std::string_view alphabet =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const std::size_t digit = alphabet.find(c);
        if (c == '=') {
            ++padding;
        } else if (digit == std::string_view::npos || padding > 0) {
            return std::nullopt;
        } else {
            bits = bits << 6U | static_cast<std::uint32_t>(digit);
            if (++sextets % 4 != 1) {
                out += static_cast<char>(bits >> (6U - 2U * ((sextets - 1) % 4)) & 0xFFU);
            }
        }
    }
    if (padding > 2 || (sextets + padding) % 4 != 0) return std::nullopt;
    return out;
}

}  // namespace

Scalar resolve_plain(std::string_view text) {
    if (auto word = resolve_word(text)) return std::move(*word);
    const char first = text.front();
    if (is_digit(first) || first == '+' || first == '-' || first == '.') {
        if (auto number = resolve_number(text)) return std::move(*number);
    }
    return string_scalar(text);
}

base::Result<Scalar> resolve_tagged(std::string_view tag, std::string_view text) {
    if (!tag.starts_with(yaml_prefix)) return string_scalar(text);
    tag.remove_prefix(yaml_prefix.size());
    if (tag == "binary") {
        if (auto bytes = decode_base64(text)) return string_scalar(*bytes);
        return base::fail(base::ErrorKind::invalid_input, "!!binary with a text that is no base64");
    }
    constexpr std::array kinds = {
        std::pair{"null", ScalarKind::null}, std::pair{"bool", ScalarKind::boolean},
        std::pair{"int", ScalarKind::integer}, std::pair{"float", ScalarKind::real}};
    const auto* const wanted = std::ranges::find(
        kinds, tag, [](const auto& kind) { return std::string_view(kind.first); });
    if (wanted == kinds.end()) return string_scalar(text);
    Scalar scalar = resolve_plain(text);
    if (wanted->second == ScalarKind::real && scalar.kind == ScalarKind::integer) {
        scalar = real_scalar(std::strtod(scalar.text.c_str(), nullptr));
    }
    if (scalar.kind == wanted->second) return scalar;
    return base::fail(base::ErrorKind::invalid_input,
                      fmt::format("!!{} with a text that is none: {:.80}", tag, text));
}

base::Result<std::string> key_text(const Scalar& scalar) {
    const auto refuse = [](const std::string& what) {
        return base::fail(base::ErrorKind::invalid_input, what + "; write the key in quotes");
    };
    if (scalar.kind == ScalarKind::null) return refuse("a key cannot be null");
    constexpr std::string_view most = "9223372036854775807";
    const std::size_t digits = scalar.text.size();
    if (scalar.kind == ScalarKind::integer && scalar.text.front() != '-' &&
        (digits > most.size() || (digits == most.size() && scalar.text > most))) {
        return refuse(fmt::format("the key {} is too large a number", scalar.text));
    }
    if (scalar.kind != ScalarKind::real) return scalar.text;
    const auto single = static_cast<float>(scalar.real);
    if (std::isnan(single)) return ".nan";
    if (std::isinf(single)) return single > 0 ? ".inf" : "-.inf";

    // Go's FormatFloat(value, 'g', -1, 32): digits of a float, an exponent below -4 and from 6 on.
    std::array<char, 32> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), single,
                                   std::chars_format::scientific);
    const std::string scientific(buffer.data(), end.ptr);
    const int exponent = std::atoi(scientific.substr(scientific.find('e') + 1).c_str());
    if (single == 0 || (exponent >= -4 && exponent < 6)) {
        const auto fixed = std::to_chars(buffer.data(), buffer.data() + buffer.size(), single,
                                         std::chars_format::fixed);
        return std::string(buffer.data(), fixed.ptr);
    }
    return scientific;
}

bool is_safe_plain(std::string_view text) {
    constexpr std::string_view indicators = "?:,[]{}#&*!|>'\"%@`=<~ ";
    if (text.empty() || indicators.find(text.front()) != std::string_view::npos) return false;
    if (text.back() == ' ' || text.back() == ':' || !base::is_utf8(text)) return false;
    if (text.front() == '-' && (text.size() == 1 || text[1] == ' ')) return false;
    if (text.starts_with("---") || text.starts_with("...")) return false;  // ends of documents
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        // C1 controls and line separators begin with 0xC2 and 0xE2, the byte order mark with 0xEF.
        if (c < 0x20 || c == 0x7F || c == 0xC2 || c == 0xE2 || c >= 0xEF) return false;
        if (c == ':' && text[i + 1] == ' ') return false;
        if (c == '#' && text[i - 1] == ' ') return false;
    }
    constexpr std::string_view numeric = "0123456789.:+-_abcdefABCDEFxXoOtTzZ ";
    const bool looks_numeric = (is_digit(text.front()) || text.front() == '.' ||
                                text.front() == '+' || text.front() == '-') &&
                               text.find_first_not_of(numeric) == std::string_view::npos &&
                               text.find_first_of("0123456789") != std::string_view::npos;
    return !looks_numeric && resolve_plain(text).kind == ScalarKind::string;
}

}  // namespace drawbridge::kube
