#include "agent/process/health_board.hpp"

#include "agent/rpc/messages.hpp"

#include <chrono>
#include <utility>

namespace drawbridge::agent {

void HealthBoard::show(const Inventory& inventory) {
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(clock_.now().time_since_epoch());
    std::string message = rpc::encode_health(pool_, inventory, now.count());
    const std::lock_guard lock(mutex_);
    newest_ = std::move(message);
    std::erase_if(streams_, [](const auto& stream) { return stream->is_closed(); });
    for (const auto& stream : streams_)
        stream->send(newest_);
}

void HealthBoard::listen(std::shared_ptr<rpc::RpcStream> stream) {
    const std::lock_guard lock(mutex_);
    stream->send(newest_);
    streams_.push_back(std::move(stream));
}

std::vector<rpc::RpcMethod> HealthBoard::methods() {
    std::vector<rpc::RpcMethod> methods;
    for (const std::string version : {"v1", "v1alpha1"}) {
        methods.push_back(
            {.name = "/" + version + ".DRAResourceHealth/NodeWatchResources",
             .unary = {},
             .stream = [this](const std::string&, std::shared_ptr<rpc::RpcStream> stream) {
                 listen(std::move(stream));
             }});
    }
    return methods;
}

}  // namespace drawbridge::agent
