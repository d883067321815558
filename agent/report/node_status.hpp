#pragma once
// Devices, shares, owners and usage of a node, for people, programs and metrics.

#include "agent/claim/claim_records.hpp"
#include "agent/prepare/prepare_flow.hpp"
#include "agent/share/share_book.hpp"
#include "agent/share/share_pages.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// A container that has a share.
struct ShareOwner {
    std::string cdi_id = {};
    std::string name_space = {};
    std::string pod = {};
    std::string container = {};
};

struct ShareStatus {
    ShareOwner owner = {};  ///< empty texts where the kubelet tells of none
    ClaimName claim = {};
    std::size_t index = 0;  ///< in the claim
    std::string request = {};
    Amounts allocated = {};
    /// What its containers are held to: what was allocated, or what an administrator lowered it to.
    Amounts in_force = {};
    ShareActivity activity = {};
};

struct DeviceStatus {
    Offer offer = {};
    std::string health = {};  ///< Healthy, Unhealthy or Unknown
    std::vector<ShareStatus> shares = {};
};

/// What a share's files say; nothing where one cannot be read.
struct ShareFacts {
    std::optional<ReadLimits> limits = std::nullopt;
    std::optional<ShareActivity> activity = std::nullopt;
};
using ReadShare = std::function<ShareFacts(const std::string& share, std::int64_t physical_bytes)>;

/// One entry for each device, in the order of the inventory; a share that several containers have
/// comes once for each.
[[nodiscard]] std::vector<DeviceStatus> node_status(const Inventory& inventory,
                                                    const ClaimRecords& records,
                                                    std::span<const ShareOwner> owners,
                                                    const ReadShare& read_share);

/// `{"devices": [...]}`. A share tells what is in force, and beside it what was allocated where
/// that is something else.
[[nodiscard]] std::string status_json(const std::vector<DeviceStatus>& devices);

/// The same as a table, made of the JSON text.
[[nodiscard]] base::Result<std::string> status_table(const std::string& json);

/// Healthy, Unhealthy or Unknown, as in a pod's status.
[[nodiscard]] std::string_view health_name(const Device& device);

}  // namespace drawbridge::agent
