#include "agent/process/node_folders.hpp"

#include "agent/device/device.hpp"
#include "agent/process/instance_lock.hpp"
#include "base/atomic_file.hpp"
#include "base/hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::Result;

constexpr std::size_t max_socket_path = 107;
// The lock of an agent that was given no name.
constexpr std::string_view nameless = "only";

Result<void> make_folder(const std::string& path, mode_t mode) {
    if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
    return base::fail(base::ErrorKind::internal,
                      fmt::format("cannot make the folder: {}", std::strerror(errno)), path);
}

bool is_ours(std::string_view name) {
    const bool registration = name.starts_with(driver_name) && name.ends_with("-reg.sock");
    return registration || (name.starts_with("dra") && name.ends_with(".sock"));
}

/// Sockets below a folder that have names as ours have.
void add_sockets(const std::string& folder, std::vector<std::string>& found) {
    std::error_code failure;
    for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
        std::error_code ignored;
        if (is_ours(entry.path().filename().string()) && entry.is_socket(ignored))
            found.push_back(entry.path().string());
    }
}

/// Whether the kernel says that no process listens there.
bool is_deserted(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() > max_socket_path) return false;
    path.copy(static_cast<char*>(address.sun_path), path.size());
    const int file = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) return false;
    const int end = ::connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    const bool refused = end != 0 && errno == ECONNREFUSED;
    ::close(file);
    return refused;
}

}  // namespace

std::string instance_name(const std::string& instance) {
    return instance.empty() ? std::string(nameless) : instance;
}

std::vector<std::string> remove_dead_sockets(const std::string& kubelet_root) {
    std::vector<std::string> sockets;
    add_sockets(kubelet_root + "/plugins_registry", sockets);
    add_sockets(plugin_folder(kubelet_root), sockets);
    // Behind the sockets: whoever made one of those had its lock before.
    for (const auto& [name, run] : running_instances(instances_folder(kubelet_root))) {
        const SocketPaths live = socket_paths(kubelet_root, name == nameless ? "" : name, run);
        std::erase(sockets, live.service);
        std::erase(sockets, live.registration);
    }
    std::erase_if(sockets, [](const std::string& path) {
        return !is_deserted(path) || ::unlink(path.c_str()) != 0;
    });
    return sockets;
}

void remove_temporaries(const std::string& kubelet_root, const FlowPaths& paths) {
    if (running_instances(instances_folder(kubelet_root)).size() > 1) return;
    const std::string folders[] = {plugin_folder(kubelet_root), paths.claims, paths.cdi};
    for (const std::string& folder : folders) {
        std::error_code failure;
        for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
            if (entry.path().filename().string().starts_with(base::temporary_prefix))
                ::unlink(entry.path().c_str());
        }
    }
}

std::string plugin_folder(const std::string& kubelet_root) {
    return fmt::format("{}/plugins/{}", kubelet_root, driver_name);
}

std::string instances_folder(const std::string& kubelet_root) {
    return plugin_folder(kubelet_root) + "/instances";
}

std::string new_run() {
    constexpr std::size_t run_chars = 6;
    std::random_device random;
    return base::base32_lower(base::sha256(fmt::format("{} {}", random(), random())), run_chars);
}

SocketPaths socket_paths(const std::string& kubelet_root, const std::string& instance,
                         const std::string& run) {
    const auto make = [&](std::string_view part) {
        const std::string dash = part.empty() ? "" : fmt::format("-{}", part);
        return SocketPaths{
            fmt::format("{}/plugins/{}/dra{}.sock", kubelet_root, driver_name, dash),
            fmt::format("{}/plugins_registry/{}{}-reg.sock", kubelet_root, driver_name, dash)};
    };
    if (instance.empty()) return make("");
    const std::string own = fmt::format("{}-{}", instance, run);
    const SocketPaths paths = make(own);
    constexpr std::size_t hash_chars = 8;
    const bool too_long =
        std::max(paths.service.size(), paths.registration.size()) > max_socket_path;
    if (!too_long) return paths;
    return make(base::base32_lower(base::sha256(own), hash_chars));
}

Result<void> make_node_folders(const PathOptions& options, const FlowPaths& paths) {
    const std::pair<std::string, mode_t> folders[] = {
        {options.kubelet_root + "/plugins", 0750},
        {plugin_folder(options.kubelet_root), 0711},
        {paths.claims, 0700},
        {paths.shares, 0711},
        {paths.libraries, 0711},
        {instances_folder(options.kubelet_root), 0700},
        {options.cdi, 0755}};
    for (const auto& [path, mode] : folders) {
        if (auto made = make_folder(path, mode); !made) return made;
    }
    return {};
}

}  // namespace drawbridge::agent
