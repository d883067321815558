// Quantities against the oracle's own arithmetic: what is read, its value, and the order of two.

#include "kube/quantity.hpp"
#include "tests/fuzz/laws.hpp"
#include "tests/translate/decimal.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

using drawbridge::fuzz::law;
namespace kube = drawbridge::kube;
namespace oracle = drawbridge::oracle;

namespace {

/// apimachinery narrows exponents to 32 bits and takes a number without digits for zero, such as
/// "+" or "Ki"; the oracle does neither.
bool is_beyond_the_oracle(std::string_view text) {
    const auto number =
        text.substr(0, std::min(text.find_first_not_of("+-.0123456789"), text.size()));
    const auto exponent = text.find_first_of("eE");
    return number.find_first_of("0123456789") == number.npos ||
           (exponent != text.npos && text.size() - exponent > 9);
}

bool is_beyond_64_bits(const oracle::Decimal& number) {
    const auto bound = oracle::decimal(std::numeric_limits<std::int64_t>::max());
    return oracle::Decimal{false, number.digits, number.exponent} > bound;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto cut = std::min(text.find('\n'), text.size());
    const auto one = text.substr(0, cut);
    const auto two = text.substr(std::min(cut + 1, text.size()));
    if (is_beyond_the_oracle(one)) return 0;
    const auto read = kube::parse_quantity(one);
    const auto right = oracle::read_quantity(one);
    law(read.has_value() == right.has_value(), "both read it, or neither", one);
    if (!right) return 0;
    law(read->is_zero() == right->is_zero(), "zero", one);
    law(read->is_negative() == (right->negative && !right->is_zero()), "sign", one);
    // Beyond 64 bits apimachinery caps some forms and not others: tests/kube has it as a referee.
    if (is_beyond_64_bits(*right)) return 0;
    const auto kept = oracle::as_kept(*right);
    law(read->whole() == kept.whole(), "whole value", one);
    const auto other = oracle::read_quantity(two);
    const auto read_other = kube::parse_quantity(two);
    if (!other || !read_other || is_beyond_the_oracle(two) || is_beyond_64_bits(*other)) return 0;
    law((*read <=> *read_other) == (kept <=> oracle::as_kept(*other)), "order", text);
    law((*read == *read_other) == (kept == oracle::as_kept(*other)), "equality", text);
    return 0;
}
