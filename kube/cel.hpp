#pragma once
// CEL selector expressions for devices; the only place that quotes text into an expression.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::kube {

/// A text as a CEL string literal that means exactly this text, whatever it contains.
[[nodiscard]] std::string cel_quote(std::string_view text);

/// Builds expressions on the attributes and capacities of one driver's devices. Every expression
/// starts with the driver test and tests an optional key before reading it, since a run-time error
/// aborts the scheduling of the whole pod (dra.md 1.7). Without optional syntax (`.?`): the API
/// server refuses it as too costly under a function of strings.
///
/// A name of an attribute or capacity is of the driver's own domain unless it names another
/// (`resource.kubernetes.io/pcieRoot`).
class CelSelectors {
public:
    explicit CelSelectors(std::string_view driver) : driver_(driver) {}

    /// The string attribute is one of `values` (`wanted`), or none of them. A device without the
    /// attribute is none of them.
    [[nodiscard]] std::string one_of(std::string_view attribute,
                                     const std::vector<std::string>& values, bool wanted) const;
    /// The string attribute, with `prefix` before it unless it starts with it, contains one of
    /// `parts` without regard to ASCII case (`wanted`), or none of them. A dash at the end of the
    /// prefix does not count in "starts with": `NVIDIA A10` needs no `NVIDIA-`.
    /// legacy-requests.md R8.
    [[nodiscard]] std::string contains_any(std::string_view attribute, std::string_view prefix,
                                           const std::vector<std::string>& parts,
                                           bool wanted) const;
    /// The capacity is exactly `bytes`.
    [[nodiscard]] std::string capacity_is(std::string_view capacity, std::int64_t bytes) const;
    /// The capacity is at least `bytes`.
    [[nodiscard]] std::string capacity_at_least(std::string_view capacity,
                                                std::int64_t bytes) const;

private:
    [[nodiscard]] std::string capacity_compares(std::string_view capacity, std::string_view compare,
                                                std::int64_t bytes) const;
    std::string driver_;
};

}  // namespace drawbridge::kube
