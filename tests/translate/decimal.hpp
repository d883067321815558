#pragma once
// Exact decimal numbers of any length, and Kubernetes quantities read into them: slow, literal, and
// independent of kube/.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace drawbridge::oracle {

/// sign * digits * 10^exponent, without leading or trailing zeros in `digits`; zero has no digits.
struct Decimal {
    bool negative = false;
    std::string digits;
    std::int64_t exponent = 0;

    [[nodiscard]] bool is_zero() const { return digits.empty(); }
    [[nodiscard]] bool is_whole() const { return exponent >= 0; }
    /// The value, if it is whole and fits.
    [[nodiscard]] std::optional<std::int64_t> whole() const;
    [[nodiscard]] std::strong_ordering operator<=>(const Decimal& other) const;
    [[nodiscard]] bool operator==(const Decimal& other) const = default;
};

[[nodiscard]] Decimal decimal(std::int64_t value);
/// `number` times `factor`, which is positive.
[[nodiscard]] Decimal times(const Decimal& number, std::uint32_t factor);

/// Reads a quantity by the grammar of apimachinery's parseQuantityString, without its bounds:
/// neither rounded to nano units nor capped. nullopt for what an API server refuses.
[[nodiscard]] std::optional<Decimal> read_quantity(std::string_view text);

/// The same number as an API server keeps it: rounded away from zero to nano units, capped at
/// +-(2^63 - 1).
[[nodiscard]] Decimal as_kept(const Decimal& number);

}  // namespace drawbridge::oracle
