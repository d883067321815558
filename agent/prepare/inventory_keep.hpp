#pragma once
// What stays published while claims hold it, whatever becomes of the device (node-agent.md 12, 13).

#include "agent/claim/claim_records.hpp"
#include "agent/device/inventory.hpp"

#include <vector>

namespace drawbridge::agent {

/// The devices that are there, and those that only claims still hold: these as lost, so that the
/// scheduler and people see what became of them.
[[nodiscard]] std::vector<Device> with_lost(std::vector<Device> devices, const Inventory& before,
                                            const ClaimRecords& records);

/// Published sizes, raised where claims hold more: a capacity that shrank is lowered when they end.
[[nodiscard]] PublishedSizes with_committed(PublishedSizes sizes, const NodeSettings& settings,
                                            const std::vector<Device>& devices,
                                            const ClaimRecords& records);

}  // namespace drawbridge::agent
