#pragma once
// The options of `drawbridge serve`.

#include "base/log.hpp"
#include "base/result.hpp"
#include "server/connection_deadlines.hpp"
#include "server/drain.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): CLI11's
class App;
}

namespace drawbridge::server {

/// An IP address and a port.
struct Address {
    std::string host;
    std::uint16_t port = 0;

    [[nodiscard]] bool operator==(const Address&) const = default;
};

/// `127.0.0.1:9443`, `[::1]:0`, `:9443` (every IPv4 address).
[[nodiscard]] base::Result<Address> parse_address(std::string_view text);

struct TlsOptions {
    std::string certificate;  ///< PEM files; both, or neither
    std::string key;
    std::string client_ca;    ///< PEM file; empty: clients show no certificate
    std::string self_signed;  ///< folder; empty: `certificate` and `key`
};

enum class StoreKind { memory, kubernetes };

/// What is known of the cluster: from its API server, or from these options.
struct ClusterOptions {
    StoreKind store = StoreKind::memory;
    std::string kubeconfig;
    std::string fleet;
    std::string device_memory;
    std::string kubernetes_version;
};

struct CapacityOptions {
    std::size_t threads = 2;
    std::size_t max_connections = 2048;
    std::int64_t max_in_flight = 256;
};

struct ServeOptions {
    Address listen;
    Address operator_listen;
    std::string port_file;
    std::string settings;
    base::Level log_level = base::Level::info;
    TlsOptions tls;
    ClusterOptions cluster;
    CapacityOptions capacity;
    ConnectionTimes times;
    DrainTimes drain{std::chrono::seconds{5}, std::chrono::seconds{15}};
};

/// The exit status where options end the program: help was asked for, or they are wrong.
struct ExitNow {
    int status;
};

/// The options of `serve`, which read their values into `options`.
void add_options(CLI::App& app, ServeOptions& options);

/// Reads the arguments behind `serve`; prints help or what is wrong.
[[nodiscard]] std::variant<ServeOptions, ExitNow> parse_options(
    const std::vector<std::string>& arguments);

}  // namespace drawbridge::server
