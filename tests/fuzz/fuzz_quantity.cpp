// Quantities against the oracle's own arithmetic: what is read, its value, and the order of two.

#include "kube/quantity.hpp"
#include "tests/fuzz/laws.hpp"
#include "tests/translate/decimal.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

using drawbridge::fuzz::law;
namespace kube = drawbridge::kube;
namespace oracle = drawbridge::oracle;

namespace {

/// apimachinery narrows exponents to 32 bits and takes "+" and "." for zero; neither reaches us
/// from an API server.
bool is_beyond_the_oracle(std::string_view text) {
    const auto digits = [](char c) { return c >= '0' && c <= '9'; };
    const auto exponent = text.find_first_of("eE");
    return std::none_of(text.begin(), text.end(), digits) ||
           (exponent != text.npos && text.size() - exponent > 9);
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
    const auto kept = oracle::as_kept(*right);
    // A capped value is a bound and no number: apimachinery's AsInt64 has none for it either.
    const auto bound = oracle::decimal(std::numeric_limits<std::int64_t>::max());
    const bool capped = oracle::Decimal{false, right->digits, right->exponent} > bound;
    law(read->whole() == (capped ? std::nullopt : kept.whole()), "whole value", one);
    law(read->is_zero() == kept.is_zero(), "zero", one);
    law(read->is_negative() == (kept.negative && !kept.is_zero()), "sign", one);
    const auto other = oracle::read_quantity(two);
    const auto read_other = kube::parse_quantity(two);
    if (!other || !read_other || is_beyond_the_oracle(two)) return 0;
    law((*read <=> *read_other) == (kept <=> oracle::as_kept(*other)), "order", text);
    law((*read == *read_other) == (kept == oracle::as_kept(*other)), "equality", text);
    return 0;
}
