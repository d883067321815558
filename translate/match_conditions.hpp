#pragma once
// The match conditions of the webhook: CEL by which an API server finds out itself which pods the
// core could change or refuse, so that it does not call us for any other.

#include "translate/settings.hpp"

#include <string>
#include <vector>

namespace drawbridge::translate {

/// One entry of `matchConditions`: its name is unique, a DNS label; all must hold for a call.
struct MatchCondition {
    std::string name;
    std::string expression;
};

/// The conditions for these settings (design.md decision 8), in the order in which they are to be
/// written. An expression reads a key only after it has asked for it: an error would count as a
/// failed call. Costs grow with containers and with their resources, never with a product of lists.
[[nodiscard]] std::vector<MatchCondition> match_conditions(const Settings& settings);

}  // namespace drawbridge::translate
