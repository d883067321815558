#include "agent/claim/limit_rules.hpp"

#include <algorithm>

namespace drawbridge::agent {
namespace {

constexpr std::int64_t all_cores = 100;  // percent; no limit on compute takes them, too

bool is_for(const LimitRule& rule, const ClaimRecord& record) {
    const bool pod_fits =
        rule.pod.empty() || std::ranges::find(record.pods, rule.pod) != record.pods.end();
    return rule.name_space == record.claim.name_space && pod_fits &&
           (rule.claim.empty() || rule.claim == record.claim.name);
}

}  // namespace

Amounts held_to(const Amounts& allocated, std::span<const LimitRule> rules,
                const ClaimRecord& record) {
    Amounts held = allocated;
    for (const LimitRule& rule : rules) {
        if (!is_for(rule, record)) continue;
        if (rule.memory_bytes) held.memory_bytes = std::min(held.memory_bytes, *rule.memory_bytes);
        if (rule.cores)
            held.cores = std::min(held.cores <= 0 ? all_cores : held.cores, *rule.cores);
    }
    return held;
}

}  // namespace drawbridge::agent
