#pragma once
// The opaque parameters of a claim: what a share has beside its amounts (design.md decision 19).

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// From the least strict to the strictest.
enum class CorePolicy { disable, standard, force };

/// `disable`, `default` or `force`.
[[nodiscard]] std::string_view core_policy_name(CorePolicy policy);
[[nodiscard]] std::optional<CorePolicy> core_policy_from_name(std::string_view name);

/// A field without value is left open.
struct ShareConfig {
    std::optional<std::int64_t> priority = std::nullopt;  ///< 0 (high) or 1 (low)
    std::optional<CorePolicy> core_policy = std::nullopt;

    [[nodiscard]] bool operator==(const ShareConfig&) const = default;
};

/// A configuration and what is worth a warning in it.
struct ReadConfig {
    ShareConfig config = {};
    std::vector<std::string> warnings = {};
};

/// Reads a `ShareConfig` of gpu.drawbridge.dev. Of version v1 an unknown field is refused; of a
/// later one it is passed by with a warning, since agents are upgraded before webhooks.
[[nodiscard]] base::Result<ReadConfig> read_share_config(base::JsonView parameters);

/// `bound` limits `wish`: what it sets can be made stricter, never looser; what it leaves open is
/// free.
[[nodiscard]] ShareConfig bounded(const ShareConfig& bound, const ShareConfig& wish);

/// `later` over `earlier`, field by field.
[[nodiscard]] ShareConfig overlaid(const ShareConfig& earlier, const ShareConfig& later);

}  // namespace drawbridge::agent
