#pragma once
// grpc.health.v1 on the plugin's socket: for probes that want to know whether the kubelet would be
// answered.

#include "agent/rpc/rpc_server.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// Any thread. Serving means that the agent answers itself on both of its sockets what the kubelet
/// would ask: who it is, and to prepare nothing (node-agent.md 5).
class SelfHealth {
public:
    SelfHealth(boost::asio::any_io_executor pool, std::string service_socket,
               std::string registration_socket)
        : pool_(std::move(pool)),
          service_socket_(std::move(service_socket)),
          registration_socket_(std::move(registration_socket)) {}

    /// Check and Watch.
    [[nodiscard]] std::vector<rpc::RpcMethod> methods();
    /// Asks itself soon, where anybody watches, and tells those if it changed.
    void look();

private:
    void tell();
    void check(const std::string& request, const std::shared_ptr<rpc::RpcCall>& call);
    void watch(const std::string& request, std::shared_ptr<rpc::RpcStream> stream);
    [[nodiscard]] bool answers_itself() const;

    boost::asio::any_io_executor pool_;
    std::string service_socket_;
    std::string registration_socket_;
    std::mutex mutex_;
    bool serving_ = false;
    std::vector<std::shared_ptr<rpc::RpcStream>> watching_;
};

}  // namespace drawbridge::agent
