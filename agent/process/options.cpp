#include "agent/process/options.hpp"

#include "base/command_line.hpp"
#include "base/version.hpp"
#include "kube/name_rules.hpp"

#include <fmt/format.h>

namespace drawbridge::agent {
namespace {

constexpr const char* footer =
    "Examples:\n"
    "  drawbridge-agent --node worker-1 --devices devices.yaml --kubeconfig agent.kubeconfig\n"
    "  drawbridge-agent status -o json\n"
    "  drawbridge-agent top\n"
    "\n"
    "Exit status: 0 stopped as told, 1 own failure.";

std::string folder_check(const std::string& path) {
    if (path.starts_with('/')) return {};
    return path + " is no absolute path";
}

void add_paths(CLI::App& app, PathOptions& paths) {
    app.add_option("--kubelet-root", paths.kubelet_root,
                   "the kubelet's root folder (default /var/lib/kubelet)")
        ->check(folder_check);
    app.add_option("--cdi", paths.cdi, "folder for CDI files (default /var/run/cdi)")
        ->check(folder_check);
    app.add_option("--runtime-socket", paths.runtime,
                   "the container runtime's socket, which is asked whether CDI is on (default: "
                   "containerd's and CRI-O's, below --host-root); empty: it is not asked");
    app.add_option("--static-cdi", paths.static_cdi,
                   "folder of CDI files that others write (default /etc/cdi)")
        ->check(folder_check);
    app.add_option("--boot-id-file", paths.boot_id, "what tells one boot from the next")
        ->check(folder_check);
    app.add_option(
           "--library", paths.library,
           "libdrawbridge.so, which holds containers to their shares (default "
           "DRAWBRIDGE_LIBRARY; without it nothing does); libdrawbridge-libcuda.so beside it "
           "is for nodes with replaceLibcuda")
        ->envname("DRAWBRIDGE_LIBRARY")
        ->check(folder_check);
}

void add_source(CLI::App& app, SourceOptions& source) {
    app.add_option("--devices", source.devices,
                   "offer the devices that this file lists, for machines without GPUs");
    app.add_option(
        "--settings", source.settings,
        "AgentSettings, or HAMi's device-config.yaml or node configuration; of a folder, "
        "every file in it, and it may be empty");
    app.add_option(
           "--host-root", source.host_root,
           "the host's root as the agent sees it; the driver is looked for there, and in the "
           "GPU Operator's driver container")
        ->check(folder_check);
    app.add_option("--driver-root", source.driver_root,
                   "the driver's root as the agent sees it, for drivers that lie elsewhere");
    app.add_option("--driver-root-on-host", source.driver_root_host,
                   "the same folder's path on the host, for example /run/nvidia/driver");
    app.add_flag("--beside-device-plugin", source.beside_device_plugin,
                 "publish although a device plugin of this node offers nvidia.com/gpu");
}

}  // namespace

std::vector<std::string> runtime_sockets(const AgentOptions& options) {
    if (const auto& named = options.paths.runtime) {
        return named->empty() ? std::vector<std::string>() : std::vector<std::string>{*named};
    }
    std::vector<std::string> sockets;
    for (const char* usual : {"/run/containerd/containerd.sock", "/run/crio/crio.sock"})
        sockets.push_back(options.source.host_root + usual);
    return sockets;
}

std::variant<AgentOptions, ExitNow> parse_options(int count, char** arguments) {
    CLI::App app("DRA kubelet plugin that shares GPUs by memory, compute and slots.",
                 "drawbridge-agent");
    app.set_version_flag("--version", fmt::format("drawbridge-agent {}", base::version));
    app.footer(footer);
    AgentOptions options;
    app.add_option("--node", options.node, "name of this node (default NODE_NAME)")
        ->envname("NODE_NAME")
        ->required()
        ->check([](const std::string& text) {
            return kube::is_dns_subdomain(text) ? "" : text + " is no name of a node";
        });
    app.add_option("--instance", options.instance,
                   "UID of this pod, for sockets of its own (default POD_UID)")
        ->envname("POD_UID");
    app.add_option("--kubeconfig", options.kubeconfig, "credentials (default: the pod's own)");
    app.add_option("--operator-listen", options.operator_listen,
                   "health, metrics and debugging over plain HTTP (default 127.0.0.1:8082)");
    app.add_option("--port-file", options.port_file,
                   "write {\"operator\":N} there once the port listens");
    app.add_flag("--legacy-variables", options.legacy_variables,
                 "give containers HAMi's environment variables too");
    app.add_flag("--device-metadata", options.device_metadata,
                 "give containers the attributes of their devices as files (KEP-5304)");
    base::add_choice<bool>(app, "--on-bypass", options.evict, {{"report", false}, {"evict", true}},
                           "what becomes of pods whose processes take more of a GPU than their "
                           "share: told of, or evicted too (default report)");
    base::add_choice<HamiMetrics>(
        app, "--hami-metrics", options.hami_metrics,
        {{"off", HamiMetrics::off}, {"current", HamiMetrics::current}, {"all", HamiMetrics::all}},
        "tell HAMi's own metrics too: those of HAMi 2.10, or all, with their older names (default "
        "off)");
    add_paths(app, options.paths);
    add_source(app, options.source);
    base::add_log_level(app, options.log_level);
    base::refuse_empty_values(app, {"--runtime-socket"});
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return ExitNow{base::exit_status(app, error)};
    }
    return options;
}

}  // namespace drawbridge::agent
