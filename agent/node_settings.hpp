#pragma once
// What an administrator chooses for a node's devices: split count, scaling, filters.

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Devices that are not offered.
struct DeviceFilter {
    std::vector<std::string> uuids = {};
    std::vector<std::int64_t> indices = {};

    [[nodiscard]] bool operator==(const DeviceFilter&) const = default;
};

/// Holds shares that were handed out to less than was allocated.
struct LimitRule {
    std::string name_space = {};
    std::string pod = {};    ///< empty: every pod
    std::string claim = {};  ///< empty: every claim
    std::optional<std::int64_t> memory_bytes = std::nullopt;
    std::optional<std::int64_t> cores = std::nullopt;  ///< percent, 1..100

    [[nodiscard]] bool operator==(const LimitRule&) const = default;
};

/// How long a share waits for those of a higher priority, in seconds.
struct PauseTimes {
    std::int64_t longest = 60;  ///< without a break, 1..86400
    std::int64_t free = 1;      ///< the break, 0..3600

    [[nodiscard]] bool operator==(const PauseTimes&) const = default;
};

/// What holds for shares that are handed out, and may change under their containers.
struct ShareRules {
    std::vector<LimitRule> limits = {};  ///< the least of those that match holds
    PauseTimes pauses = {};

    [[nodiscard]] bool operator==(const ShareRules&) const = default;
};

/// Names and defaults are HAMi's (legacy-requests.md 1.3, 4).
struct NodeSettings {
    std::int64_t split_count = 10;  ///< shares a device, 1..1024
    double memory_scaling = 1;      ///< above 1: more is promised than is there
    double core_scaling = 1;
    std::int64_t headroom_mib = 0;  ///< of each device, kept from the shares
    /// Publish what the driver says now, also where another size was published before.
    bool accept_memory_sizes = false;
    /// New claims get the preload library in the place of libcuda.so.1 too (docs/preload.md).
    bool replace_libcuda = false;
    DeviceFilter exclude = {};
    ShareRules rules = {};

    [[nodiscard]] bool operator==(const NodeSettings&) const = default;
};

/// The settings of the node `node` in a document that is JSON already: our own `AgentSettings`
/// (drawbridge.dev/v1) with overrides under `nodes`, HAMi's `device-config.yaml` (its `nvidia`
/// section), HAMi's node configuration (`nodeconfig`), or a ConfigMap with any of these in its
/// `data`. Refused with the place: unknown fields of ours, values out of range.
[[nodiscard]] base::Result<NodeSettings> read_node_settings(base::JsonView document,
                                                            std::string_view node);

/// The same from the text of a file, YAML or JSON.
[[nodiscard]] base::Result<NodeSettings> parse_node_settings(std::string_view text,
                                                             std::string_view node);

/// The same over settings that were read before: what the text does not name stays.
[[nodiscard]] base::Result<void> add_node_settings(NodeSettings& settings, std::string_view text,
                                                   std::string_view node);

}  // namespace drawbridge::agent
