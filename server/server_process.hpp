#pragma once
// The webhook as a whole: puts its parts together, starts them in order, and ends them in order.

#include "http/operator_server.hpp"
#include "server/cert_keeper.hpp"
#include "server/cluster_holder.hpp"
#include "server/drain.hpp"
#include "server/kubernetes_backend.hpp"
#include "server/listener.hpp"
#include "server/operator_routes.hpp"
#include "server/options.hpp"
#include "server/settings_watch.hpp"
#include "server/template_store_memory.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace drawbridge::server {

/// Made, started and run on the main thread, which does all housekeeping: signals, the drain, the
/// files that may change.
class ServerProcess {
public:
    explicit ServerProcess(ServeOptions options);
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;
    ~ServerProcess();

    /// Settings, cluster, certificate, operator port, admission port, port file.
    [[nodiscard]] base::Result<void> start();
    /// Serves until a signal; the exit status.
    [[nodiscard]] int run();

private:
    [[nodiscard]] base::Result<void> read_cluster();
    [[nodiscard]] base::Result<void> connect_cluster();
    [[nodiscard]] base::Result<void> open_ports();
    void settings_changed(const translate::Settings& settings);

    [[nodiscard]] OperatorParts operator_parts();
    [[nodiscard]] std::vector<std::string> not_ready() const;
    [[nodiscard]] std::vector<std::string> remarks() const;
    [[nodiscard]] TemplateStore& store();

    void wait_for_signal();
    void on_signal(int number);
    void look_after_files();
    void step_drain();

    const ServeOptions options_;
    Metrics metrics_;
    Inflight inflight_;
    SettingsHolder settings_;
    ClusterHolder cluster_;
    TlsIdentityHolder identity_;

    SettingsWatch settings_watch_;
    CertKeeper cert_keeper_;
    MemoryTemplateStore memory_store_;
    boost::asio::io_context backend_io_{1};
    std::unique_ptr<KubernetesBackend> backend_;
    std::thread backend_thread_;

    std::unique_ptr<MutateEndpoint> endpoint_;
    std::unique_ptr<SessionParts> session_parts_;
    std::unique_ptr<Listener> listener_;
    std::unique_ptr<http::OperatorServer> admin_;

    boost::asio::io_context io_{1};
    boost::asio::signal_set signals_{io_};
    boost::asio::steady_timer file_timer_{io_};
    boost::asio::steady_timer drain_timer_{io_};
    Drain drain_;
    std::atomic<bool> leaving_{false};
};

}  // namespace drawbridge::server
