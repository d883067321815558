#pragma once
// What the kubelet's plugin watcher asks a plugin.

#include "agent/rpc/rpc_server.hpp"

#include <functional>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// Told what the kubelet made of the registration; on a thread of gRPC.
using RegistrationHook = std::function<void(bool registered, const std::string& error)>;

/// GetInfo and NotifyRegistrationStatus of pluginregistration.Registration, for the service on
/// `service_socket`.
[[nodiscard]] std::vector<rpc::RpcMethod> registration_methods(const std::string& service_socket,
                                                               RegistrationHook told);

}  // namespace drawbridge::agent
