#include "kube/quantity.hpp"

#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

namespace drawbridge::kube {

namespace {

constexpr std::int64_t nano = -9;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

struct Suffix {
    std::string_view text;
    bool binary;
    std::int32_t exponent;
};

constexpr std::array suffixes = {
    Suffix{"", false, 0},   Suffix{"n", false, -9}, Suffix{"u", false, -6}, Suffix{"m", false, -3},
    Suffix{"k", false, 3},  Suffix{"M", false, 6},  Suffix{"G", false, 9},  Suffix{"T", false, 12},
    Suffix{"P", false, 15}, Suffix{"E", false, 18}, Suffix{"Ki", true, 10}, Suffix{"Mi", true, 20},
    Suffix{"Gi", true, 30}, Suffix{"Ti", true, 40}, Suffix{"Pi", true, 50}, Suffix{"Ei", true, 60},
};

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

std::size_t count_digits(std::string_view text) {
    const auto end = std::ranges::find_if_not(text, is_digit);
    return static_cast<std::size_t>(end - text.begin());
}

/// A suffix of the list, or a decimal exponent. apimachinery reads the exponent as 64 bits and
/// keeps the lower 32.
std::optional<Suffix> read_suffix(std::string_view text) {
    const auto* const known = std::ranges::find(suffixes, text, &Suffix::text);
    if (known != suffixes.end()) return *known;
    if (text[0] != 'e' && text[0] != 'E') return std::nullopt;
    std::string_view number = text.substr(1);
    if (number.starts_with('+')) {
        number.remove_prefix(1);
        if (number.starts_with('-')) return std::nullopt;
    }
    std::int64_t exponent = 0;
    const char* const end = number.data() + number.size();
    const auto read = std::from_chars(number.data(), end, exponent);
    if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
    return Suffix{text, false, static_cast<std::int32_t>(exponent)};
}

/// digits * 2^exponent, for exponents up to 60.
std::string times_power_of_two(const std::string& digits, std::int32_t exponent) {
    std::string reversed;
    reversed.reserve(digits.size() + 19);
    std::uint64_t carry = 0;  // stays below 2^60, so that no step exceeds 10 * 2^60
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
        carry += static_cast<std::uint64_t>(*digit - '0') << static_cast<unsigned>(exponent);
        reversed.push_back(static_cast<char>('0' + carry % 10));
        carry /= 10;
    }
    for (; carry != 0; carry /= 10) {
        reversed.push_back(static_cast<char>('0' + carry % 10));
    }
    return {reversed.rbegin(), reversed.rend()};
}

/// Adds one to a number in digits.
void increment(std::string& digits) {
    const std::size_t last = digits.find_last_not_of('9');
    const std::size_t first_nine = last == std::string::npos ? 0 : last + 1;
    std::fill(digits.begin() + static_cast<std::ptrdiff_t>(first_nine), digits.end(), '0');
    if (last == std::string::npos) {
        digits.insert(digits.begin(), '1');
    } else {
        ++digits[last];
    }
}

/// digits followed by `zeros` zeros as a number, or nothing if it does not fit.
std::optional<std::uint64_t> magnitude(std::string_view digits, std::int64_t zeros) {
    if (digits.empty()) return 0;
    if (static_cast<std::int64_t>(digits.size()) + zeros > 19) return std::nullopt;
    std::uint64_t value = 0;  // 19 digits always fit
    for (const char digit : digits)
        value = value * 10 + static_cast<std::uint64_t>(digit - '0');
    for (; zeros > 0; --zeros)
        value *= 10;
    return value;
}

/// The text in an error message: a long one is cut.
std::string quoted(std::string_view text) {
    constexpr std::size_t most = 48;
    std::string out;
    base::append_json_string(out, text.substr(0, most));
    if (text.size() > most) out += "...";
    return out;
}

tl::unexpected<base::Error> refuse(std::string_view text, std::string_view reason) {
    return base::fail(base::ErrorKind::invalid_input,
                      fmt::format("{} is not a quantity: {}", quoted(text), reason));
}

}  // namespace

Quantity::Quantity(std::int64_t whole)
    : Quantity(whole < 0, std::to_string(whole).substr(whole < 0 ? 1 : 0), 0) {}

Quantity::Quantity(bool negative, std::string digits, std::int64_t exponent)
    : negative_(negative), digits_(std::move(digits)), exponent_(exponent) {
    digits_.erase(0, digits_.find_first_not_of('0'));
    if (!digits_.empty() && exponent_ < nano) {
        const auto surplus = static_cast<std::size_t>(nano - exponent_);
        const std::size_t kept = digits_.size() - std::min(digits_.size(), surplus);
        const bool exact = digits_.find_first_not_of('0', kept) == std::string::npos;
        digits_.resize(kept);
        if (!exact) increment(digits_);
        exponent_ = nano;
    }
    const std::size_t length = digits_.find_last_not_of('0') + 1;  // npos + 1 is 0
    exponent_ += static_cast<std::int64_t>(digits_.size() - length);
    digits_.resize(length);
    if (digits_.empty()) {
        negative_ = false;
        exponent_ = 0;
    }
}

std::optional<std::int64_t> Quantity::whole() const {
    if (exponent_ < 0) return std::nullopt;
    const auto value = magnitude(digits_, exponent_);
    const std::uint64_t most = static_cast<std::uint64_t>(largest) + (negative_ ? 1 : 0);
    if (!value || *value > most) return std::nullopt;
    return static_cast<std::int64_t>(negative_ ? 0 - *value : *value);
}

std::int64_t Quantity::rounded_up() const {
    std::string whole_digits = digits_;
    if (exponent_ < 0) {  // the last digit is not 0: there is a fraction
        const auto fraction = static_cast<std::size_t>(-exponent_);
        whole_digits.resize(digits_.size() - std::min(digits_.size(), fraction));
        increment(whole_digits);
    }
    const Quantity rounded(negative_, std::move(whole_digits),
                           std::max<std::int64_t>(exponent_, 0));
    return rounded.whole().value_or(negative_ ? std::numeric_limits<std::int64_t>::min() : largest);
}

std::strong_ordering Quantity::operator<=>(const Quantity& other) const {
    const auto sign = [](const Quantity& quantity) {
        return quantity.is_zero() ? 0 : quantity.negative_ ? -1 : 1;
    };
    if (sign(*this) != sign(other) || is_zero()) return sign(*this) <=> sign(other);
    const auto length = [](const Quantity& quantity) {
        return static_cast<std::int64_t>(quantity.digits_.size()) + quantity.exponent_;
    };
    // of two negative ones the one of greater size is the smaller
    const Quantity& left = negative_ ? other : *this;
    const Quantity& right = negative_ ? *this : other;
    if (length(left) != length(right)) return length(left) <=> length(right);
    return left.digits_ <=> right.digits_;
}

base::Result<Quantity> parse_quantity(std::string_view text) {
    if (text.empty()) return refuse(text, "the text is empty");
    std::string_view rest = text;
    const bool negative = rest.starts_with('-');
    if (negative || rest.starts_with('+')) rest.remove_prefix(1);

    std::string digits(rest.substr(0, count_digits(rest)));
    rest.remove_prefix(digits.size());
    std::int64_t fraction = 0;
    if (rest.starts_with('.')) {
        rest.remove_prefix(1);
        const std::string_view decimals = rest.substr(0, count_digits(rest));
        digits += decimals;
        rest.remove_prefix(decimals.size());
        fraction = static_cast<std::int64_t>(decimals.size());
    }

    const auto suffix = read_suffix(rest);
    if (!suffix) {
        return refuse(text,
                      "after the number may stand n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, "
                      "Ei or a decimal "
                      "exponent such as e3");
    }
    if (digits.empty() && (suffix->binary ? suffix->exponent >= 50 : suffix->exponent < nano)) {
        return refuse(
            text,
            "there is no number");  // other suffixes without a number: zero, as in apimachinery
    }
    if (!suffix->binary) return Quantity(negative, std::move(digits), suffix->exponent - fraction);
    Quantity value(negative, times_power_of_two(digits, suffix->exponent), -fraction);
    const Quantity cap(negative ? -largest : largest);
    return negative ? std::max(value, cap) : std::min(value, cap);
}

}  // namespace drawbridge::kube
