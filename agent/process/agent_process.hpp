#pragma once
// The agent as a process: what is started in which order, and what is stopped.

#include "agent/claim/claim_locks.hpp"
#include "agent/files.hpp"
#include "agent/prepare/prepare_flow.hpp"
#include "agent/process/claim_report.hpp"
#include "agent/process/cluster_api.hpp"
#include "agent/process/courier.hpp"
#include "agent/process/device_watch.hpp"
#include "agent/process/dra_service.hpp"
#include "agent/process/health_board.hpp"
#include "agent/process/instance_lock.hpp"
#include "agent/process/node_checks.hpp"
#include "agent/process/node_folders.hpp"
#include "agent/process/node_report.hpp"
#include "agent/process/options.hpp"
#include "agent/process/reconciler.hpp"
#include "agent/process/self_health.hpp"
#include "agent/process/share_keeper.hpp"
#include "agent/process/slice_publisher.hpp"
#include "agent/rpc/rpc_server.hpp"
#include "agent/source/device_source.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"
#include "http/operator_server.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace drawbridge::agent {

class AgentProcess {
public:
    explicit AgentProcess(AgentOptions options);
    AgentProcess(const AgentProcess&) = delete;
    AgentProcess& operator=(const AgentProcess&) = delete;
    ~AgentProcess();

    /// Everything up to the registration socket.
    [[nodiscard]] base::Result<void> start();
    /// Until a signal; the exit status.
    [[nodiscard]] int run();

private:
    base::Result<void> install_library();
    base::Result<void> connect();
    base::Result<void> open_operator_port();
    base::Result<void> open_sockets();
    base::Result<bool> take_instance();
    void wait_for_instance();
    void ask_for_instance();
    void check_node();
    void offer();
    void publish();
    void registered(bool yes, const std::string& error);
    bool on_device_thread(std::chrono::seconds patience, std::function<void()> work);
    void look_first();
    void look_at_devices();
    void look_at_silence();
    void end_looks(int status);
    void take(const Inventory& inventory, base::Result<DriverEdits> edits);
    void show(NodeView view);
    void every(boost::asio::steady_timer& timer, std::chrono::seconds interval,
               std::function<void()> work);
    void reconcile();
    void reconcile_files(bool all);
    void hold_to_limits();
    void reconcile_claims();
    void tell_health();
    void wait_for_signal();
    void stop();

    AgentOptions options_;
    base::SystemClock clock_;
    DiskFiles files_;
    std::string plugin_folder_;
    std::string instances_folder_;
    std::string run_;
    SocketPaths sockets_;
    std::unique_ptr<PrepareFlow> flow_;
    std::unique_ptr<NodeChecks> checks_;
    std::optional<InstanceLock> instance_lock_;
    std::unique_ptr<DeviceSource> source_;
    std::unique_ptr<DeviceWatch> devices_;
    HealthBoard health_;
    AgentMetrics metrics_;
    std::unique_ptr<NodeReport> report_;
    boost::asio::io_context io_{1};
    boost::asio::strand<boost::asio::io_context::executor_type> strand_{io_.get_executor()};
    boost::asio::thread_pool pool_{4};
    boost::asio::thread_pool device_pool_{1};
    SelfHealth self_health_;
    std::unique_ptr<ShareKeeper> keeper_;
    boost::asio::signal_set signals_{io_};
    boost::asio::steady_timer device_timer_{device_pool_};  ///< no other thread need wake for it
    boost::asio::steady_timer health_timer_{io_};
    boost::asio::steady_timer reconcile_timer_{io_};
    boost::asio::steady_timer instance_timer_{io_};
    std::unique_ptr<ClusterApi> api_;
    std::unique_ptr<SlicePublisher> publisher_;
    std::unique_ptr<Courier> courier_;
    std::unique_ptr<ClaimReport> claims_;
    std::unique_ptr<Reconciler> reconciler_;
    std::unique_ptr<rpc::RpcServer> service_;
    std::unique_ptr<http::OperatorServer> operator_;
    std::mutex take_mutex_;  ///< one view follows the other
    bool offered_ = false;
    unsigned silent_rounds_ = 0;  ///< since the last look at the devices ended
    std::thread stopper_;
    bool looks_ended_ = false;
    bool publishing_ = false;
    bool reconciling_ = false;
    unsigned rounds_ = 0;
};

}  // namespace drawbridge::agent
