#pragma once
// What the kubelet asks of a DRA plugin; converts messages and hands the work on.

#include "agent/prepare/prepare_flow.hpp"
#include "agent/process/cluster_api.hpp"
#include "agent/rpc/rpc_server.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// One claim's end of work, for logs and counts.
struct ClaimWork {
    bool prepare = true;  ///< else unprepare
    ClaimName claim = {};
    std::vector<PreparedShare> shares = {};
    std::vector<std::string> warnings = {};
    std::vector<Consumer> consumers = {};
    base::Result<void> done = {};
    std::chrono::nanoseconds took{0};
    std::chrono::nanoseconds asked{0};  ///< of that, until the API server had answered
};

/// Where the work is done: questions to the API server on its strand, files on a pool.
struct DraParts {
    boost::asio::any_io_executor strand;
    boost::asio::any_io_executor pool;
    ClusterApi& api;
    PrepareFlow& flow;
    std::function<void(const ClaimWork&)> ended;
    /// Why nothing may be prepared at all; empty: nothing is in the way.
    std::function<std::string()> refusal;
};

/// NodePrepareResources and NodeUnprepareResources of v1 and v1beta1. The parts outlive all calls.
[[nodiscard]] std::vector<rpc::RpcMethod> dra_methods(const DraParts& parts);

}  // namespace drawbridge::agent
