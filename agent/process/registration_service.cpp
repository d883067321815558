#include "agent/process/registration_service.hpp"

#include "agent/device/device.hpp"
#include "agent/rpc/messages.hpp"

#include <utility>

namespace drawbridge::agent {

std::vector<rpc::RpcMethod> registration_methods(const std::string& service_socket,
                                                 RegistrationHook told) {
    const std::string info = rpc::encode_plugin_info(
        {.name = std::string(driver_name),
         .endpoint = service_socket,
         .versions = {"v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth",
                      "v1alpha1.DRAResourceHealth"}});
    std::vector<rpc::RpcMethod> methods;
    methods.push_back({.name = "/pluginregistration.Registration/GetInfo",
                       .unary =
                           [info](const std::string&, const std::shared_ptr<rpc::RpcCall>& call) {
                               call->finish({rpc::RpcCode::ok, info});
                           },
                       .stream = {}});
    methods.push_back({.name = "/pluginregistration.Registration/NotifyRegistrationStatus",
                       .unary =
                           [told = std::move(told)](const std::string& bytes,
                                                    const std::shared_ptr<rpc::RpcCall>& call) {
                               const auto status = rpc::decode_registration(bytes);
                               call->finish({rpc::RpcCode::ok, ""});
                               if (status) told(status->registered, status->error);
                           },
                       .stream = {}});
    return methods;
}

}  // namespace drawbridge::agent
