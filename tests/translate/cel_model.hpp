#pragma once
// Reads and evaluates device selectors, as far as our claims use CEL; independent of the builder in
// kube/.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace drawbridge::oracle {

/// One device of a model fleet, as a ResourceSlice describes it.
struct ModelDevice {
    std::string name;
    std::string driver;
    std::map<std::string, std::variant<std::string, std::int64_t>>
        attributes;                                ///< in the driver's domain
    std::map<std::string, std::int64_t> capacity;  ///< in the driver's domain
};

/// What an expression comes to: a condition, or why there is none. A scheduler gives up on the
/// whole pod on an error.
struct CelOutcome {
    std::optional<bool> value;
    std::string error;
};

[[nodiscard]] CelOutcome evaluate_cel(std::string_view expression, const ModelDevice& device);

/// Whether the text is one string literal of CEL that means exactly `meaning`.
[[nodiscard]] bool is_literal_of(std::string_view text, std::string_view meaning);

}  // namespace drawbridge::oracle
