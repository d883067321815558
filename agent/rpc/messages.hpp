#pragma once
// The kubelet's messages as bytes, to and from what the agent works with.

#include "agent/claim/claim_facts.hpp"
#include "agent/device/inventory.hpp"
#include "agent/prepare/prepare_flow.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent::rpc {

struct PluginInfo {
    std::string name = {};
    std::string endpoint = {};  ///< path of a socket as the host sees it
    std::vector<std::string> versions = {};
};
[[nodiscard]] std::string encode_plugin_info(const PluginInfo& info);

/// What the kubelet made of us.
struct Registration {
    bool registered = false;
    std::string error = {};
};
[[nodiscard]] base::Result<Registration> decode_registration(const std::string& bytes);

/// The claims of a prepare or unprepare request.
[[nodiscard]] base::Result<std::vector<ClaimName>> decode_claims(const std::string& bytes);

using PrepareResults = std::map<std::string, base::Result<std::vector<PreparedShare>>>;
/// By claim UID.
[[nodiscard]] std::string encode_prepared(const PrepareResults& results);
using UnprepareResults = std::map<std::string, base::Result<void>>;
[[nodiscard]] std::string encode_unprepared(const UnprepareResults& results);

/// All devices of a pool with their health, as a stream sends it (node-agent.md 5).
[[nodiscard]] std::string encode_health(std::string_view pool, const Inventory& inventory,
                                        std::int64_t unix_seconds);

/// `grpc.health.v1`: what a service does.
enum class Serving { serving, not_serving, service_unknown };
[[nodiscard]] std::string encode_serving(Serving serving);
/// The service that a request of `grpc.health.v1` asks for.
[[nodiscard]] base::Result<std::string> decode_health_service(const std::string& bytes);

/// `runtime.v1`, Status: asks a container runtime for all that it tells of itself.
[[nodiscard]] std::string encode_runtime_status_request();
/// Its configuration as JSON, as its answer has it; empty where it shows none.
[[nodiscard]] base::Result<std::string> decode_runtime_config(const std::string& bytes);

/// A share that a container has, as the kubelet's PodResources tells.
struct ContainerShare {
    std::string name_space = {};
    std::string pod = {};
    std::string container = {};
    std::string claim = {};
    std::string cdi_id = {};
};
/// Those of our driver.
[[nodiscard]] base::Result<std::vector<ContainerShare>> decode_pod_resources(
    const std::string& bytes);

}  // namespace drawbridge::agent::rpc
