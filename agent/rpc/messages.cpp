#include "agent/rpc/messages.hpp"

#include "agent/api/api_text.hpp"
#include "agent/rpc/kubelet.pb.h"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::agent::rpc {
namespace {

using base::Result;

// The kubelet takes health that is older as unknown; we tell every ten seconds.
constexpr std::int64_t health_seconds = 30;
constexpr std::size_t max_message = 1024;
constexpr std::size_t max_error = 4096;

tl::unexpected<base::Error> unreadable(std::string_view what) {
    return base::fail(base::ErrorKind::invalid_input, fmt::format("{} cannot be read", what));
}

/// What failed and where, as it ends in the pod's events; protobuf takes UTF-8 alone.
std::string error_text(const base::Error& error) {
    const std::string place = error.path.empty() ? "" : fmt::format("{}: ", error.path);
    return bounded_text(place + error.message, max_error);
}

/// A fault that changes nothing (effect None) leaves a device healthy: it only informs.
const Fault* worst_fault(const Device& device) {
    const Fault* worst = nullptr;
    for (const Fault& fault : device.faults) {
        if (fault.effect == TaintEffect::none) continue;
        if (worst == nullptr || fault.effect > worst->effect) worst = &fault;
    }
    return worst;
}

bool is_unmonitored(const Device& device) {
    return std::ranges::any_of(device.faults,
                               [](const Fault& fault) { return fault.key == "unmonitored"; });
}

}  // namespace

std::string encode_plugin_info(const PluginInfo& info) {
    wire::PluginInfo message;
    message.set_type("DRAPlugin");
    message.set_name(info.name);
    message.set_endpoint(info.endpoint);
    for (const std::string& version : info.versions)
        message.add_supported_versions(version);
    return message.SerializeAsString();
}

Result<Registration> decode_registration(const std::string& bytes) {
    wire::RegistrationStatus status;
    if (!status.ParseFromString(bytes)) return unreadable("the registration status");
    return Registration{status.plugin_registered(), status.error()};
}

Result<std::vector<ClaimName>> decode_claims(const std::string& bytes) {
    wire::ClaimsRequest request;
    if (!request.ParseFromString(bytes)) return unreadable("the request");
    std::vector<ClaimName> claims;
    for (const wire::Claim& claim : request.claims())
        claims.push_back({claim.namespace_(), claim.name(), claim.uid()});
    return claims;
}

std::string encode_prepared(const PrepareResults& results) {
    wire::PrepareResponse response;
    for (const auto& [uid, result] : results) {
        wire::PreparedClaim& claim = (*response.mutable_claims())[uid];
        if (!result) {
            claim.set_error(error_text(result.error()));
            continue;
        }
        for (const PreparedShare& share : *result) {
            wire::PreparedDevice& device = *claim.add_devices();
            device.add_request_names(share.request);
            device.set_pool_name(share.pool);
            device.set_device_name(share.device);
            device.add_cdi_device_ids(share.cdi_id);
            if (!share.share_id.empty()) device.set_share_id(share.share_id);
        }
    }
    return response.SerializeAsString();
}

std::string encode_unprepared(const UnprepareResults& results) {
    wire::UnprepareResponse response;
    for (const auto& [uid, result] : results) {
        wire::UnpreparedClaim& claim = (*response.mutable_claims())[uid];
        if (!result) claim.set_error(error_text(result.error()));
    }
    return response.SerializeAsString();
}

std::string encode_health(std::string_view pool, const Inventory& inventory,
                          std::int64_t unix_seconds) {
    wire::HealthResponse response;
    for (const Offer& offer : inventory.offers()) {
        wire::DeviceHealth& health = *response.add_devices();
        health.mutable_device()->set_pool_name(std::string(pool));
        health.mutable_device()->set_device_name(offer.name);
        health.set_last_updated_time(unix_seconds);
        health.set_health_check_timeout_seconds(health_seconds);
        const Fault* fault = worst_fault(offer.device);
        if (fault != nullptr) {
            health.set_health(wire::UNHEALTHY);
            health.set_message(
                bounded_text(fault->message.empty() ? fault->key : fault->message, max_message));
        } else {
            health.set_health(is_unmonitored(offer.device) ? wire::UNKNOWN : wire::HEALTHY);
        }
    }
    return response.SerializeAsString();
}

std::string encode_serving(Serving serving) {
    wire::ServingStatus status;
    switch (serving) {
        case Serving::serving:
            status.set_status(wire::ServingStatus::SERVING);
            break;
        case Serving::not_serving:
            status.set_status(wire::ServingStatus::NOT_SERVING);
            break;
        case Serving::service_unknown:
            status.set_status(wire::ServingStatus::SERVICE_UNKNOWN);
            break;
    }
    return status.SerializeAsString();
}

Result<std::string> decode_health_service(const std::string& bytes) {
    wire::ServingRequest request;
    if (!request.ParseFromString(bytes)) return unreadable("the request");
    return request.service();
}

std::string encode_runtime_status_request() {
    wire::RuntimeStatusRequest request;
    request.set_verbose(true);
    return request.SerializeAsString();
}

Result<std::string> decode_runtime_config(const std::string& bytes) {
    wire::RuntimeStatus status;
    if (!status.ParseFromString(bytes)) return unreadable("the status of the container runtime");
    const auto found = status.info().find("config");
    return found == status.info().end() ? std::string() : found->second;
}

Result<std::vector<ContainerShare>> decode_pod_resources(const std::string& bytes) {
    wire::ListPodResourcesResponse response;
    if (!response.ParseFromString(bytes)) return unreadable("the list of pod resources");
    std::vector<ContainerShare> shares;
    for (const wire::PodResources& pod : response.pod_resources()) {
        for (const wire::ContainerResources& container : pod.containers()) {
            for (const wire::DynamicResource& dynamic : container.dynamic_resources()) {
                for (const wire::ClaimResource& resource : dynamic.claim_resources()) {
                    if (resource.driver_name() != driver_name) continue;
                    for (const wire::CdiDevice& device : resource.cdi_devices()) {
                        shares.push_back({pod.namespace_(), pod.name(), container.name(),
                                          dynamic.claim_name(), device.name()});
                    }
                }
            }
        }
    }
    return shares;
}

}  // namespace drawbridge::agent::rpc
