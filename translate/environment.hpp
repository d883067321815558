#pragma once
// The variables that a translation sets in containers (legacy-requests.md R13).

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "translate/claim_shape.hpp"
#include "translate/settings.hpp"

namespace drawbridge::translate {

/// Variables for a container with this request; none: it has no legacy names.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> environment_of(
    const ClaimShape* shape, const Settings& settings);

/// Whether a variable of this name may have been set by us.
[[nodiscard]] bool is_own_variable(std::string_view name);

}  // namespace drawbridge::translate
