#pragma once
// What a node offers: its devices with the capacities that shares are taken from.

#include "agent/device/device.hpp"
#include "agent/node_settings.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// An amount of each capacity (design.md decision 4).
struct Amounts {
    std::int64_t memory_bytes = 0;
    std::int64_t cores = 0;
    std::int64_t slots = 0;

    [[nodiscard]] bool operator==(const Amounts&) const = default;
    Amounts& operator+=(const Amounts& other);
};

/// A device as it is published.
struct Offer {
    std::string name = {};  ///< in the slice
    Device device = {};
    Amounts capacity = {};

    [[nodiscard]] bool operator==(const Offer&) const = default;
};

/// Memory that was published before, by UUID: it stays until an administrator accepts another
/// figure (design.md decision 12).
using PublishedSizes = std::map<std::string, std::int64_t, std::less<>>;

/// All offers of a node, in the order in which the scheduler is to try them.
class Inventory {
public:
    Inventory() = default;
    /// Fails where two devices have one name.
    [[nodiscard]] static base::Result<Inventory> make(std::vector<Device> devices,
                                                      const NodeSettings& settings,
                                                      const PublishedSizes& published);

    [[nodiscard]] const std::vector<Offer>& offers() const { return offers_; }
    /// The offer of that name; null if there is none.
    [[nodiscard]] const Offer* find(std::string_view name) const;
    [[nodiscard]] const Offer* find_uuid(std::string_view uuid) const;
    /// The same with a fault of every device, once.
    [[nodiscard]] Inventory with_fault(const Fault& fault) const;
    /// What to remember as published.
    [[nodiscard]] PublishedSizes sizes() const;

    [[nodiscard]] bool operator==(const Inventory&) const = default;

private:
    std::vector<Offer> offers_;
};

/// Bytes of shared memory of a device: HAMi's figure, total times scaling in whole MiB, less the
/// headroom (node-agent.md 8). A MIG instance is never scaled (legacy-requests.md 4).
[[nodiscard]] std::int64_t offered_memory(const Device& device, const NodeSettings& settings);

}  // namespace drawbridge::agent
