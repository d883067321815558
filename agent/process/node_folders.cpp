#include "agent/process/node_folders.hpp"

#include "agent/device.hpp"
#include "base/hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <sys/stat.h>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::Result;

constexpr std::size_t max_socket_path = 107;

Result<void> make_folder(const std::string& path, mode_t mode) {
    if (::mkdir(path.c_str(), mode) == 0 || errno == EEXIST) return {};
    return base::fail(base::ErrorKind::internal,
                      fmt::format("cannot make the folder: {}", std::strerror(errno)), path);
}

}  // namespace

std::string plugin_folder(const std::string& kubelet_root) {
    return fmt::format("{}/plugins/{}", kubelet_root, driver_name);
}

std::string instances_folder(const std::string& kubelet_root) {
    return plugin_folder(kubelet_root) + "/instances";
}

SocketPaths socket_paths(const std::string& kubelet_root, const std::string& instance) {
    const auto make = [&](std::string_view part) {
        const std::string dash = part.empty() ? "" : fmt::format("-{}", part);
        return SocketPaths{
            fmt::format("{}/plugins/{}/dra{}.sock", kubelet_root, driver_name, dash),
            fmt::format("{}/plugins_registry/{}{}-reg.sock", kubelet_root, driver_name, dash)};
    };
    SocketPaths paths = make(instance);
    constexpr std::size_t hash_chars = 8;
    const bool too_long =
        std::max(paths.service.size(), paths.registration.size()) > max_socket_path;
    if (too_long && !instance.empty())
        paths = make(base::base32_lower(base::sha256(instance), hash_chars));
    return paths;
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
