#pragma once
// Kubernetes quantities ("3k", "8Gi", "500m", "1e3"), read exactly as an API server reads them.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace drawbridge::kube {

/// An exact decimal number: digits * 10^exponent, as apimachinery's `resource.Quantity` holds it. Values with more
/// than nano precision are rounded away from zero, values beyond +-(2^63-1) are capped, as there.
class Quantity {
public:
    Quantity() = default;
    explicit Quantity(std::int64_t whole);

    /// The value, if it is whole and fits in 64 bits.
    [[nodiscard]] std::optional<std::int64_t> whole() const;
    /// The value rounded up (away from zero), as `Quantity.Value()`; capped at the limits of 64 bits.
    [[nodiscard]] std::int64_t rounded_up() const;
    [[nodiscard]] bool is_zero() const;
    [[nodiscard]] bool is_negative() const;

    [[nodiscard]] std::strong_ordering operator<=>(const Quantity& other) const;
    [[nodiscard]] bool operator==(const Quantity& other) const;

private:
    friend base::Result<Quantity> parse_quantity(std::string_view text);
    // value = units_ + nanos_ * 10^-9, both of one sign
    std::int64_t units_ = 0;
    std::int64_t nanos_ = 0;
};

/// Reads a quantity; `invalid_input` says what is wrong with the text. Grammar and bounds: apimachinery
/// pkg/api/resource/quantity.go (signs, all decimal and binary suffixes, decimal exponents).
[[nodiscard]] base::Result<Quantity> parse_quantity(std::string_view text);

}  // namespace drawbridge::kube
