#pragma once
// What a claim is given on this node: pure check of an allocation against devices and other claims
// (node-agent.md 4).

#include "agent/claim/claim_facts.hpp"
#include "agent/claim/claim_records.hpp"
#include "agent/device/inventory.hpp"
#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// What an allocation is checked against.
struct PrepareView {
    std::string_view pool;  ///< ours: the node's name
    const Inventory& inventory;
    const ClaimRecords& records;  ///< of all claims on this node, the claim's own among them
};

/// The shares of a claim that was never prepared, in the order of the allocation. Fails with what
/// is wrong and with whom it clashes: a claim without allocation or consumer (`conflict`), another
/// pool, a device that is not there, is lost or has no driver (`unavailable`), amounts that the
/// device does not offer, sums over all claims above a capacity (`conflict`: the scheduler can give
/// a device twice, and a forced deletion frees it before the container ends).
[[nodiscard]] base::Result<std::vector<Share>> plan_prepare(const ClaimFacts& facts,
                                                            const PrepareView& view);

/// Whether stored shares are still what the claim says: the same requests, devices and share IDs
/// in the same order.
[[nodiscard]] bool is_same_allocation(const std::vector<Share>& shares, const ClaimFacts& facts);

/// Checks stored shares again before their files are made anew: each device is there, not lost, its
/// driver answers, and the UUID is the one it was.
[[nodiscard]] base::Result<void> check_devices(const std::vector<Share>& shares,
                                               const Inventory& inventory);

/// What claims other than `except` hold of the GPU with that UUID.
[[nodiscard]] Amounts committed(const ClaimRecords& records, std::string_view uuid,
                                std::string_view except = {});

}  // namespace drawbridge::agent
