#pragma once
// The options of `drawbridge-agent`.

#include "agent/report/hami_metrics.hpp"
#include "base/log.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace drawbridge::agent {

/// Folders of the host, at the same paths in the agent's container, and files of the agent's own.
struct PathOptions {
    std::string kubelet_root = "/var/lib/kubelet";
    std::string cdi = "/var/run/cdi";
    std::string boot_id = "/proc/sys/kernel/random/boot_id";
    std::optional<std::string> runtime;   ///< socket of the container runtime; empty: not asked
    std::string static_cdi = "/etc/cdi";  ///< CDI files that are not made anew at each boot
    std::string library;  ///< build of the preload library for containers; empty: none
};

/// Where devices and their settings come from.
struct SourceOptions {
    std::string devices;           ///< file with a DeviceList; empty: NVML
    std::string settings;          ///< file; empty: defaults
    std::string host_root;         ///< the host's root as this process sees it; empty: `/`
    std::string driver_root;       ///< of the driver as this process sees it; empty: `/`
    std::string driver_root_host;  ///< the same folder on the host
    bool beside_device_plugin = false;
};

struct AgentOptions {
    std::string node;      ///< name of the Node object
    std::string instance;  ///< the pod's UID: two instances at once have sockets of their own
    std::string kubeconfig;
    std::string operator_listen = "127.0.0.1:8082";
    std::string port_file;
    PathOptions paths;
    SourceOptions source;
    bool legacy_variables = false;
    bool device_metadata = false;
    HamiMetrics hami_metrics = HamiMetrics::off;
    bool evict = false;  ///< pods whose processes take more of a GPU than their share
    base::Level log_level = base::Level::info;
    /// For tests, which stop there; no argument sets it: called before each step of a claim.
    std::function<void(std::string_view)> step = {};
};

/// The sockets of container runtimes to look at: the one that was named, else the usual ones of
/// containerd and CRI-O.
[[nodiscard]] std::vector<std::string> runtime_sockets(const AgentOptions& options);

/// The exit status where options end the program: help was asked for, or they are wrong.
struct ExitNow {
    int status;
};

/// Reads the arguments; prints help or what is wrong.
[[nodiscard]] std::variant<AgentOptions, ExitNow> parse_options(int count, char** arguments);

}  // namespace drawbridge::agent
