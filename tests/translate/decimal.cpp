#include "tests/translate/decimal.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace drawbridge::oracle {
namespace {

constexpr std::string_view decimal_digits = "0123456789";

Decimal normal(Decimal number) {
    const auto first = number.digits.find_first_not_of('0');
    number.digits.erase(0, std::min(first, number.digits.size()));
    if (number.digits.empty()) return {};
    const auto last = number.digits.find_last_not_of('0');
    number.exponent += static_cast<std::int64_t>(number.digits.size() - last - 1);
    number.digits.erase(last + 1);
    return number;
}

/// The place of the first digit: 1 for 1..9, 2 for 10..99, 0 for 0.1..0.9.
std::int64_t magnitude(const Decimal& number) {
    return static_cast<std::int64_t>(number.digits.size()) + number.exponent;
}

std::strong_ordering compare_absolute(const Decimal& left, const Decimal& right) {
    if (left.is_zero() || right.is_zero()) return !left.is_zero() <=> !right.is_zero();
    if (magnitude(left) != magnitude(right)) return magnitude(left) <=> magnitude(right);
    return left.digits.compare(right.digits) <=> 0;  // aligned at the first digit
}

/// The exponents behind a suffix: powers of ten and of two.
struct Scale {
    std::int64_t ten = 0;
    int two = 0;
};

std::optional<Scale> read_suffix(std::string_view suffix) {
    constexpr std::array<std::pair<std::string_view, Scale>, 16> known{{{"n", {-9, 0}},
                                                                        {"u", {-6, 0}},
                                                                        {"m", {-3, 0}},
                                                                        {"", {0, 0}},
                                                                        {"k", {3, 0}},
                                                                        {"M", {6, 0}},
                                                                        {"G", {9, 0}},
                                                                        {"T", {12, 0}},
                                                                        {"P", {15, 0}},
                                                                        {"E", {18, 0}},
                                                                        {"Ki", {0, 10}},
                                                                        {"Mi", {0, 20}},
                                                                        {"Gi", {0, 30}},
                                                                        {"Ti", {0, 40}},
                                                                        {"Pi", {0, 50}},
                                                                        {"Ei", {0, 60}}}};
    for (const auto& [name, scale] : known) {
        if (name == suffix) return scale;
    }
    if (suffix.size() < 2 || (suffix[0] != 'e' && suffix[0] != 'E')) return std::nullopt;
    auto digits = suffix.substr(1);
    const bool negative = digits[0] == '-';
    if (digits[0] == '-' || digits[0] == '+') digits.remove_prefix(1);
    if (digits.empty() || digits.find_first_not_of(decimal_digits) != digits.npos)
        return std::nullopt;
    std::int64_t exponent = 0;
    for (const char digit : digits)
        exponent = std::min<std::int64_t>(exponent * 10 + (digit - '0'), 1'000'000'000);
    return Scale{negative ? -exponent : exponent, 0};
}

}  // namespace

std::optional<std::int64_t> Decimal::whole() const {
    if (!is_whole() || magnitude(*this) > 19) return std::nullopt;
    std::uint64_t value = 0;  // 19 digits fit
    for (const char digit : digits)
        value = value * 10 + static_cast<std::uint64_t>(digit - '0');
    for (std::int64_t i = 0; i < exponent; ++i)
        value *= 10;
    constexpr std::uint64_t bound = std::uint64_t{1} << 63U;
    if (value > bound || (value == bound && !negative)) return std::nullopt;
    if (negative) value = ~value + 1;
    return static_cast<std::int64_t>(value);
}

std::strong_ordering Decimal::operator<=>(const Decimal& other) const {
    if (negative != other.negative)
        return negative ? std::strong_ordering::less : std::strong_ordering::greater;
    return negative ? compare_absolute(other, *this) : compare_absolute(*this, other);
}

Decimal decimal(std::int64_t value) {
    auto text = std::to_string(value);
    const bool negative = text[0] == '-';
    if (negative) text.erase(0, 1);
    return normal({negative, std::move(text), 0});
}

Decimal times(const Decimal& number, std::uint32_t factor) {
    std::string digits;  // from the last to the first
    std::uint64_t carry = 0;
    for (auto digit = number.digits.rbegin(); digit != number.digits.rend() || carry != 0;) {
        if (digit != number.digits.rend())
            carry += static_cast<std::uint64_t>(*digit++ - '0') * factor;
        digits.push_back(static_cast<char>('0' + carry % 10));
        carry /= 10;
    }
    std::reverse(digits.begin(), digits.end());
    return normal({number.negative, std::move(digits), number.exponent});
}

std::optional<Decimal> read_quantity(std::string_view text) {
    Decimal number;
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
        number.negative = text[0] == '-';
        text.remove_prefix(1);
    }
    const auto whole =
        text.substr(0, std::min(text.find_first_not_of(decimal_digits), text.size()));
    text.remove_prefix(whole.size());
    std::string_view fraction;
    if (!text.empty() && text[0] == '.') {
        text.remove_prefix(1);
        fraction = text.substr(0, std::min(text.find_first_not_of(decimal_digits), text.size()));
        text.remove_prefix(fraction.size());
    }
    if (whole.empty() && fraction.empty()) return std::nullopt;
    const auto scale = read_suffix(text);
    if (!scale) return std::nullopt;
    number.digits.append(whole).append(fraction);
    number.exponent = scale->ten - static_cast<std::int64_t>(fraction.size());
    number = normal(std::move(number));
    for (int bits = 0; bits < scale->two; bits += 10)
        number = times(number, 1024);
    return number;
}

Decimal as_kept(const Decimal& number) {
    Decimal kept = number;
    if (kept.exponent < -9) {
        const auto dropped = -9 - kept.exponent;
        const auto length = static_cast<std::int64_t>(kept.digits.size());
        kept.digits.erase(dropped >= length ? 0 : static_cast<std::size_t>(length - dropped));
        kept.exponent = -9;
        std::size_t place = kept.digits.size();  // one more in the last place: away from zero
        while (place > 0 && kept.digits[place - 1] == '9')
            kept.digits[--place] = '0';
        if (place == 0) {
            kept.digits.insert(kept.digits.begin(), '1');
        } else {
            ++kept.digits[place - 1];
        }
        kept = normal(std::move(kept));
    }
    auto bound = decimal(std::numeric_limits<std::int64_t>::max());
    if (compare_absolute(kept, bound) == std::strong_ordering::greater) {
        bound.negative = kept.negative;
        return bound;
    }
    return kept;
}

}  // namespace drawbridge::oracle
