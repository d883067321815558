#include "agent/process/self_health.hpp"

#include "agent/rpc/messages.hpp"
#include "agent/rpc/rpc_client.hpp"

#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
using rpc::RpcCode;
using rpc::Serving;

constexpr std::chrono::seconds answer_time{2};
// The empty name stands for the whole server.
constexpr std::array<std::string_view, 3> services = {
    "", "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin", "v1.DRAResourceHealth"};

bool is_known(std::string_view service) {
    return std::ranges::find(services, service) != services.end();
}

Serving state(bool serving) {
    return serving ? Serving::serving : Serving::not_serving;
}

}  // namespace

bool SelfHealth::answers_itself() const {
    const auto info = rpc::call_rpc(registration_socket_,
                                    "/pluginregistration.Registration/GetInfo", "", answer_time);
    if (!info) return false;
    return rpc::call_rpc(service_socket_,
                         "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/NodePrepareResources", "",
                         answer_time)
        .has_value();
}

void SelfHealth::look() {
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(watching_, [](const auto& stream) { return stream->is_closed(); });
        if (watching_.empty()) return;  // who asks once is answered by a look of its own
    }
    asio::post(pool_, [this] { tell(); });
}

/// Blocks.
void SelfHealth::tell() {
    const bool serving = answers_itself();
    const std::lock_guard lock(mutex_);
    if (std::exchange(serving_, serving) == serving) return;
    for (const auto& stream : watching_)
        stream->send(rpc::encode_serving(state(serving)));
}

void SelfHealth::check(const std::string& request, const std::shared_ptr<rpc::RpcCall>& call) {
    const auto service = rpc::decode_health_service(request);
    if (!service) return call->finish({RpcCode::invalid_argument, service.error().message});
    if (!is_known(*service)) return call->finish({RpcCode::not_found, "no such service"});
    asio::post(pool_, [this, call] {
        call->finish({RpcCode::ok, rpc::encode_serving(state(answers_itself()))});
    });
}

void SelfHealth::watch(const std::string& request, std::shared_ptr<rpc::RpcStream> stream) {
    const auto service = rpc::decode_health_service(request);
    // The stream of an unknown service stays open: the service might come.
    if (!service || !is_known(*service))
        return stream->send(rpc::encode_serving(Serving::service_unknown));
    {
        const std::lock_guard lock(mutex_);
        stream->send(rpc::encode_serving(state(serving_)));
        watching_.push_back(std::move(stream));
    }
    look();
}

std::vector<rpc::RpcMethod> SelfHealth::methods() {
    std::vector<rpc::RpcMethod> methods;
    methods.push_back(
        {.name = "/grpc.health.v1.Health/Check",
         .unary = [this](const std::string& request,
                         const std::shared_ptr<rpc::RpcCall>& call) { check(request, call); },
         .stream = {}});
    methods.push_back(
        {.name = "/grpc.health.v1.Health/Watch",
         .unary = {},
         .stream = [this](const std::string& request, std::shared_ptr<rpc::RpcStream> stream) {
             watch(request, std::move(stream));
         }});
    return methods;
}

}  // namespace drawbridge::agent
