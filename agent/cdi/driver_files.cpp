#include "agent/cdi/driver_files.hpp"

#include "base/atomic_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

namespace drawbridge::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view library_folders[] = {
    "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
    "/lib64",     "/lib/x86_64-linux-gnu",     "/usr/lib"};
/// Where the linkers of images look, Debian's and the others', whatever the host is: an image's own
/// cache does not know of the driver.
#if defined(__aarch64__)
constexpr std::string_view linker_folders[] = {"/usr/lib64", "/usr/lib/aarch64-linux-gnu"};
#else
constexpr std::string_view linker_folders[] = {"/usr/lib64", "/usr/lib/x86_64-linux-gnu"};
#endif
constexpr std::string_view program_folders[] = {"/usr/bin", "/opt/bin", "/usr/sbin", "/bin",
                                                "/sbin"};
constexpr std::string_view programs[] = {"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced",
                                         "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"};
constexpr std::string_view uvm_node = "/dev/nvidia-uvm";
constexpr std::string_view control_nodes[] = {"/dev/nvidiactl", uvm_node, "/dev/nvidia-uvm-tools",
                                              "/dev/nvidia-modeset"};
constexpr std::size_t max_small_file = 4096;
constexpr std::size_t max_device_table = 1U << 16U;

constexpr std::string_view no_uvm =
    "there is no /dev/nvidia-uvm, and CUDA does not start in containers without it: run "
    "`nvidia-modprobe -c 0 -u` on the node, at each boot";

const std::vector<std::string> read_only = {"ro", "nosuid", "nodev", "rbind", "rprivate"};

bool exists(const std::string& path) {
    std::error_code ignored;
    return fs::exists(path, ignored);
}

/// The number with which a text begins, behind spaces.
std::optional<std::int64_t> number_in(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    std::int64_t number = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc() ? std::optional(number) : std::nullopt;
}

/// The number in a small file of the kernel's.
std::optional<std::int64_t> read_number(const std::string& path) {
    const auto text = base::read_file(path, max_small_file);
    return text ? number_in(*text) : std::nullopt;
}

/// The minor number that a MIG capability's file names (`DeviceFileMinor: 12`).
std::optional<std::int64_t> capability_minor(const std::string& path) {
    const auto text = base::read_file(path, max_small_file);
    constexpr std::string_view key = "DeviceFileMinor:";
    const std::size_t at = text ? text->find(key) : std::string::npos;
    if (at == std::string::npos) return std::nullopt;
    return number_in(std::string_view(*text).substr(at + key.size()));
}

/// The major number of MIG capabilities, which the kernel gives when the driver is loaded: the line
/// `508 nvidia-caps` of /proc/devices.
std::optional<std::int64_t> capability_major(const std::string& host_root) {
    const auto text = base::read_file(host_root + "/proc/devices", max_device_table);
    if (!text) return std::nullopt;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        if (line.ends_with(" nvidia-caps")) return number_in(line);
    }
    return std::nullopt;
}

fs::file_time_type time_of(const std::string& folder) {
    std::error_code failure;
    const auto time = fs::last_write_time(folder, failure);
    return failure ? fs::file_time_type::min() : time;
}

/// The libraries of one version in a folder, each with the names that it is to have in a container:
/// its own, and those by which programs ask for it, which are links to it beside it
/// (`libnvidia-nvvm.so.4`). A folder without such links knows no other number than most have.
std::map<std::string, std::vector<std::string>> named_libraries(const std::string& folder,
                                                                std::string_view version) {
    const std::string suffix = fmt::format(".so.{}", version);
    std::map<std::string, std::vector<std::string>> found;
    std::map<std::string, std::set<std::string>> links;
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator(folder, failure)) {
        const std::string name = entry.path().filename().string();
        if (name.ends_with(suffix)) found[name] = {name};
        std::error_code no_link;
        links[fs::read_symlink(entry.path(), no_link).filename().string()].insert(name);
    }
    for (auto& [file, names] : found) {
        const std::string stem = file.substr(0, file.size() - version.size());
        for (const std::string& link : links[file])
            if (link.starts_with(stem) && link != file) names.push_back(link);
        if (names.size() == 1) names.push_back(stem + "1");
    }
    return found;
}

CdiMount mount_of(const DriverRoot& root, std::string_view host, std::string_view inside) {
    return {.host_path = fmt::format("{}{}", root.host, host),
            .container_path = std::string(inside),
            .options = read_only};
}

/// Where the driver library of a folder really lies, in terms of the root; nothing where that is
/// one of the folders itself. Debian keeps several drivers in folders of their own, with links to
/// that in use where the linker looks.
std::optional<std::string> linked_folder(const DriverRoot& root, std::string_view folder) {
    const auto found = in_root(root.seen, fmt::format("{}/libcuda.so.1", folder));
    std::error_code failure;
    const fs::path real = found ? fs::canonical(*found, failure) : fs::path();
    if (!found || failure) return std::nullopt;
    const fs::path seen = fs::canonical(root.seen.empty() ? "/" : root.seen, failure);
    const std::string inside = "/" + real.parent_path().lexically_relative(seen).string();
    if (std::ranges::find(library_folders, inside) != std::end(library_folders))
        return std::nullopt;
    return inside;
}

/// Libraries of the driver in one folder, each under all its names in every folder where a linker
/// looks. `known` has the names that another folder has given already.
void add_libraries(const DriverRoot& root, std::string_view folder, std::string_view version,
                   std::set<std::string>& known, std::vector<CdiMount>& mounts) {
    for (const auto& [file, names] :
         named_libraries(fmt::format("{}{}", root.seen, folder), version)) {
        const std::string path = fmt::format("{}/{}", folder, file);
        // A link to nothing, which a driver may leave behind, ends a container at its mount.
        if (!in_root(root.seen, path)) continue;
        for (const std::string& name : names) {
            if (!known.insert(name).second) continue;
            for (const std::string_view inside : linker_folders)
                mounts.push_back(mount_of(root, path, fmt::format("{}/{}", inside, name)));
        }
    }
}

}  // namespace

std::vector<std::string> nvml_paths(const DriverRoot& root) {
    constexpr std::string_view name = "libnvidia-ml.so.1";
    std::vector<std::string> paths;
    if (root.seen.empty()) paths.emplace_back(name);
    for (const std::string_view folder : library_folders) {
        const std::string path = fmt::format("{}/{}", folder, name);
        paths.push_back(in_root(root.seen, path).value_or(root.seen + path));
    }
    return paths;
}

DevicePlace place_of(const std::string& bus_id) {
    DevicePlace place{.pci_bus_id = bus_id};
    const std::string folder = "/sys/bus/pci/devices/" + bus_id;
    std::error_code failure;
    const fs::path real = fs::canonical(folder, failure);
    if (bus_id.empty() || failure) return place;
    for (const fs::path& part : real) {
        if (part.string().starts_with("pci")) {
            place.pcie_root = part.string();
            break;
        }
    }
    const auto node = read_number(folder + "/numa_node");
    // One node: the kernel says -1, and requests that ask for a node mean that one.
    const bool only_one = !exists("/sys/devices/system/node/node1");
    if (node && (*node >= 0 || only_one)) place.numa_node = std::max<std::int64_t>(*node, 0);
    return place;
}

std::vector<std::string> graphics_nodes(const std::string& bus_id, const std::string& host_root) {
    std::vector<std::string> nodes;
    std::error_code failure;
    const std::string folder = fmt::format("{}/sys/bus/pci/devices/{}/drm", host_root, bus_id);
    for (const auto& entry : fs::directory_iterator(folder, failure))
        nodes.push_back("/dev/dri/" + entry.path().filename().string());
    return nodes;
}

std::vector<DeviceNode> mig_nodes(const Device& card, std::int64_t gpu_instance,
                                  std::int64_t compute_instance, const std::string& host_root) {
    std::vector<DeviceNode> nodes;
    if (card.device_nodes.empty()) return nodes;
    const std::string minor =
        card.device_nodes.front().path.substr(std::string("/dev/nvidia").size());
    const std::string base = fmt::format("{}/proc/driver/nvidia/capabilities/gpu{}/mig/gi{}",
                                         host_root, minor, gpu_instance);
    const auto major = capability_major(host_root);
    for (const std::string& file :
         {base + "/access", fmt::format("{}/ci{}/access", base, compute_instance)}) {
        if (const auto number = capability_minor(file))
            nodes.push_back({.path = fmt::format("/dev/nvidia-caps/nvidia-cap{}", *number),
                             .major = major,
                             .minor = major ? number : std::nullopt});
    }
    return nodes;
}

DriverEdits driver_edits(const DriverRoot& root, std::string_view version,
                         const std::string& host_root) {
    DriverEdits edits;
    const bool on_host =
        root.host.empty() || exists(fmt::format("{}{}", host_root, control_nodes[0]));
    if (!on_host && exists(fmt::format("{}{}", root.seen, control_nodes[0])))
        edits.node_root = root.host;
    const std::string& seen = edits.node_root.empty() ? host_root : root.seen;
    for (const std::string_view node : control_nodes) {
        if (exists(fmt::format("{}{}", seen, node)))
            edits.common.nodes.push_back(node_below(edits.node_root, {.path = std::string(node)}));
    }
    const auto has = [&](std::string_view node) {
        return std::ranges::find(edits.common.nodes, node, &CdiNode::path) !=
               edits.common.nodes.end();
    };
    if (has(control_nodes[0]) && !has(uvm_node)) edits.remarks.emplace_back(no_uvm);
    // Without a version the libraries cannot be told from those of another driver.
    if (version.empty()) return edits;
    std::set<std::string> known;
    for (const std::string_view folder : library_folders) {
        // A folder that is a link to another is there by that one.
        std::error_code ignored;
        if (fs::is_symlink(fmt::format("{}{}", root.seen, folder.substr(0, folder.find('/', 1))),
                           ignored))
            continue;
        add_libraries(root, folder, version, known, edits.common.mounts);
        if (const auto linked = linked_folder(root, folder))
            add_libraries(root, *linked, version, known, edits.common.mounts);
    }
    for (const std::string_view program : programs) {
        for (const std::string_view folder : program_folders) {
            const std::string path = fmt::format("{}/{}", folder, program);
            const auto found = in_root(root.seen, path);
            if (!found) continue;
            edits.common.mounts.push_back(mount_of(root, found->substr(root.seen.size()), path));
            break;
        }
    }
    return edits;
}

std::vector<fs::file_time_type> driver_folder_times(const DriverRoot& root,
                                                    const std::string& host_root) {
    std::vector<fs::file_time_type> times = {time_of(host_root + "/dev"),
                                             time_of(root.seen + "/dev")};
    for (const std::string_view folder : library_folders) {
        times.push_back(time_of(fmt::format("{}{}", root.seen, folder)));
        if (const auto linked = linked_folder(root, folder))
            times.push_back(time_of(root.seen + *linked));
    }
    for (const std::string_view folder : program_folders)
        times.push_back(time_of(fmt::format("{}{}", root.seen, folder)));
    return times;
}

}  // namespace drawbridge::agent
