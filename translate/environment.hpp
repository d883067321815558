#pragma once
// The variables that a translation sets in containers (legacy-requests.md R13).

#include "base/json.hpp"
#include "translate/claim_shape.hpp"
#include "translate/settings.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::translate {

/// Variables for a container with this request; none: it has no legacy names.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(
    const ClaimShape* shape, const Settings& settings);

/// What became of a variable that a user set in a container with a device.
enum class VariableFate { kept, ignored, control_disabled };

/// HAMi's own variables mean nothing where the claim decides. `variable` is an entry of a
/// container's `env`, of which the literal value counts.
[[nodiscard]] VariableFate fate_of(base::JsonView variable, const Settings& settings);

/// Whether a variable of this name may have been set by us.
[[nodiscard]] bool is_own_variable(std::string_view name);

}  // namespace drawbridge::translate
