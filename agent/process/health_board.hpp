#pragma once
// The health of all devices, for whoever listens (KEP-4680).

#include "agent/device/inventory.hpp"
#include "agent/rpc/rpc_server.hpp"
#include "base/clock.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// Any thread.
class HealthBoard {
public:
    HealthBoard(const base::Clock& clock, std::string pool)
        : clock_(clock), pool_(std::move(pool)) {}

    /// Tells all listeners; to be called on each change and every ten seconds, since the kubelet
    /// takes health that is older than thirty as unknown.
    void show(const Inventory& inventory);
    /// NodeWatchResources of v1 and v1alpha1.
    [[nodiscard]] std::vector<rpc::RpcMethod> methods();

private:
    void listen(std::shared_ptr<rpc::RpcStream> stream);

    const base::Clock& clock_;
    std::string pool_;
    std::mutex mutex_;
    std::string newest_;
    std::vector<std::shared_ptr<rpc::RpcStream>> streams_;
};

}  // namespace drawbridge::agent
