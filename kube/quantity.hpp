#pragma once
// Kubernetes quantities ("3k", "8Gi", "500m", "1e3"), read exactly as an API server reads them.

#include "base/result.hpp"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace drawbridge::kube {

/// An exact decimal number of any size, as apimachinery's `resource.Quantity` holds it. What is
/// finer than nano is rounded away from zero, and a value with a binary suffix is capped at
/// +-(2^63-1), as there.
class Quantity {
public:
    Quantity() = default;
    explicit Quantity(std::int64_t whole);

    /// The value, if it is whole and fits in 64 bits.
    [[nodiscard]] std::optional<std::int64_t> whole() const;
    /// The value rounded away from zero. As `Quantity.Value()` of apimachinery, but for values
    /// beyond 64 bits, which are capped here and wrap there, and for negative fractions, which it
    /// gets wrong.
    [[nodiscard]] std::int64_t rounded_up() const;
    [[nodiscard]] bool is_zero() const { return digits_.empty(); }
    [[nodiscard]] bool is_negative() const { return negative_; }

    [[nodiscard]] std::strong_ordering operator<=>(const Quantity& other) const;
    [[nodiscard]] bool operator==(const Quantity& other) const = default;

private:
    friend base::Result<Quantity> parse_quantity(std::string_view text);
    Quantity(bool negative, std::string digits, std::int64_t exponent);

    // The value is digits_ * 10^exponent_, without zeros at either end of the digits: each value
    // has one form. Zero has no digits.
    bool negative_ = false;
    std::string digits_;
    std::int64_t exponent_ = 0;
};

/// Reads a quantity; `invalid_input` says what is wrong with the text. Grammar and bounds:
/// apimachinery pkg/api/resource/quantity.go (signs, all decimal and binary suffixes, decimal
/// exponents), with its oddities: most suffixes without a number ("k", "+") are zero. White space
/// around the text, which an API server drops before it reads, is the caller's to drop. Takes time
/// linear in the length of the text.
[[nodiscard]] base::Result<Quantity> parse_quantity(std::string_view text);

}  // namespace drawbridge::kube
