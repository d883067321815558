#pragma once
// What an administrator changes of shares that were handed out, while containers run on them. Pure.

#include "agent/claim/claim_record.hpp"
#include "agent/node_settings.hpp"

#include <span>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// What a share of the claim is held to: what was allocated, or what the least of the rules for it
/// says. Never more than was allocated.
[[nodiscard]] Amounts held_to(const Amounts& allocated, std::span<const LimitRule> rules,
                              const ClaimRecord& record);

}  // namespace drawbridge::agent
