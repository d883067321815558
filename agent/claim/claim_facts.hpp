#pragma once
// What the agent reads in a ResourceClaim: whose it is and what of our devices it was given.

#include "agent/claim/share_config.hpp"
#include "agent/device/inventory.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// A claim as the kubelet names it.
struct ClaimName {
    std::string name_space = {};
    std::string name = {};
    std::string uid = {};

    [[nodiscard]] bool operator==(const ClaimName&) const = default;
};

/// One result of the allocation that is of our driver.
struct AllocatedDevice {
    std::string request = {};  ///< of the claim's list, without a subrequest
    std::string subrequest = {};
    std::string pool = {};
    std::string device = {};
    std::string share_id = {};  ///< empty: the device was given away whole
    bool admin = false;
    /// What was taken of each capacity; nothing where the server told of none.
    std::optional<Amounts> consumed = std::nullopt;
};

/// Parameters for some requests.
struct AllocatedConfig {
    bool from_class = false;
    std::vector<std::string> requests = {};  ///< `main` or `main/sub`; empty: all
    ShareConfig config = {};
};

/// A pod that a claim is reserved for.
struct Consumer {
    std::string pod = {};
    std::string uid = {};
};

struct ClaimFacts {
    ClaimName claim = {};
    std::string pod_claim = {};  ///< name of the pod's entry; empty: it is of no template
    bool allocated = false;
    std::vector<Consumer> consumers = {};
    std::vector<AllocatedDevice> devices = {};
    std::vector<AllocatedConfig> configs = {};
    std::vector<std::string> warnings = {};
};

/// Reads a ResourceClaim of resource.k8s.io/v1. `invalid_input` with the place: what no API server
/// would hold, amounts that are no whole number from zero on, capacities that we do not publish,
/// parameters of ours that cannot be read.
[[nodiscard]] base::Result<ClaimFacts> read_claim(base::JsonView claim);

/// Names of the pods that the claim is reserved for.
[[nodiscard]] std::vector<std::string> pods_of(const ClaimFacts& facts);

/// The parameters of a result: what classes set bounds what the claim sets.
[[nodiscard]] ShareConfig config_of(const ClaimFacts& facts, const AllocatedDevice& device);

}  // namespace drawbridge::agent
