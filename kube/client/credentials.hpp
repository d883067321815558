#pragma once
// Where the API server is and who we are there, kept current: service account, kubeconfig, exec
// plugin.

#include "base/result.hpp"
#include "kube/client/api_transport.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::kube::client {

/// The API server's address.
struct Endpoint {
    bool tls = true;
    std::string host = {};  ///< without brackets
    std::string port = {};
    std::string base_path = {};    ///< before every target, without a slash at the end; often empty
    std::string server_name = {};  ///< to verify and announce; empty: the host
    bool skip_verify = false;

    /// The URL without path, for messages.
    [[nodiscard]] std::string text() const;
};

/// Reads a server URL: `https://` or `http://`, host, port, path. `invalid_input` says what is
/// wrong.
[[nodiscard]] base::Result<Endpoint> parse_server_url(std::string_view url);

/// Hands out the current `Access`. All on one strand.
class AccessSource {
public:
    virtual ~AccessSource() = default;
    /// The access as it is now: files are looked at again after a minute, a plugin is run again
    /// when what it gave has expired. `refresh`: the server did not accept the last one, so look
    /// now.
    virtual boost::asio::awaitable<base::Result<std::shared_ptr<const Access>>> get(
        bool refresh, std::chrono::steady_clock::time_point deadline) = 0;
    /// Ends a running plugin.
    virtual void stop() = 0;
};

/// All that is needed to talk to one cluster.
struct Connection {
    Endpoint endpoint;
    std::unique_ptr<AccessSource> access;
    std::string name_space;             ///< empty: none given
    std::string described;              ///< where it comes from, for the log
    std::vector<std::string> warnings;  ///< to be said at start-up
};

/// What a connection is found from; the values of the environment are arguments, so that tests
/// choose them.
struct ConnectionSources {
    std::string kubeconfig;           ///< --kubeconfig; wins
    std::string context;              ///< --context
    std::string kubeconfig_variable;  ///< KUBECONFIG: files separated by `:`
    std::string home;                 ///< HOME
    std::string service_host;         ///< KUBERNETES_SERVICE_HOST
    std::string service_port;         ///< KUBERNETES_SERVICE_PORT
    std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";

    /// As this process sees them.
    [[nodiscard]] static ConnectionSources from_environment();
};

/// Finds the cluster: --kubeconfig, else KUBECONFIG, else the pod's service account, else
/// ~/.kube/config. Reads files, runs nothing yet; a credential that cannot be read now is an error
/// now.
[[nodiscard]] base::Result<Connection> find_connection(boost::asio::any_io_executor executor,
                                                       const ConnectionSources& sources);

}  // namespace drawbridge::kube::client
