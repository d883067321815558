#include "agent/cdi/toolkit_spec.hpp"

#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::string_view toolkit_kind = "nvidia.com/gpu";
constexpr std::size_t max_spec = 1U << 20U;

const CdiDevice* find_device(const CdiSpec& spec, std::string_view name) {
    const auto found = std::ranges::find(spec.devices, name, &CdiDevice::name);
    return found == spec.devices.end() ? nullptr : &*found;
}

/// Without the numbers of device nodes: the driver's are other ones in each boot, and the file may
/// be of an earlier one. Without them a runtime takes those that the host has.
CdiEdits in_any_boot(CdiEdits edits) {
    for (CdiNode& node : edits.nodes)
        node.major = node.minor = std::nullopt;
    return edits;
}

bool brings_driver(const CdiEdits& edits, std::string_view version) {
    const std::string library = fmt::format("/libcuda.so.{}", version);
    return std::ranges::any_of(edits.mounts, [&](const CdiMount& mount) {
        return mount.container_path.ends_with(library);
    });
}

bool has_word(const CdiHook& hook, std::string_view word) {
    return std::ranges::find(hook.args, word) != hook.args.end();
}

bool updates_cache(const CdiHook& hook) {
    return has_word(hook, "update-ldcache");
}

/// Whether a node is one card's or one instance's, and not the whole driver's.
bool is_of_one(std::string_view path) {
    constexpr std::string_view card = "/dev/nvidia";
    const bool numbered = path.starts_with(card) && path.size() > card.size() &&
                          path[card.size()] >= '0' && path[card.size()] <= '9';
    return numbered || path.starts_with("/dev/dri/") || path.starts_with("/dev/nvidia-caps/");
}

/// The mount in the place of a link (`libcuda.so.570.1::/usr/lib64/libcuda.so.1`) to one of the
/// files beside it; nothing for other links.
std::optional<CdiMount> mount_of_link(std::string_view link, const std::vector<CdiMount>& files) {
    const std::size_t middle = link.find("::");
    if (middle == std::string_view::npos) return std::nullopt;
    const std::string_view path = link.substr(middle + 2);
    const std::string target =
        fmt::format("{}{}", path.substr(0, path.rfind('/') + 1), link.substr(0, middle));
    const auto file = std::ranges::find(files, target, &CdiMount::container_path);
    if (file == files.end()) return std::nullopt;
    return CdiMount{file->host_path, std::string(path), file->options};
}

/// With mounts in the place of the links that the hook `create-symlinks` would make to files that
/// are mounted beside them.
CdiEdits with_links_mounted(CdiEdits edits) {
    const std::vector<CdiMount> files = edits.mounts;
    constexpr std::string_view option = "--link";
    const auto makes_links = [](const CdiHook& hook) { return has_word(hook, "create-symlinks"); };
    for (CdiHook& hook : edits.hooks) {
        if (!makes_links(hook)) continue;
        std::vector<std::string> rest;
        for (std::size_t i = 0; i < hook.args.size(); ++i) {
            const bool is_link = hook.args[i] == option && i + 1 < hook.args.size();
            const auto mount = is_link ? mount_of_link(hook.args[i + 1], files) : std::nullopt;
            if (!mount) {
                rest.push_back(hook.args[i]);
                continue;
            }
            add_edits(edits, {.mounts = {*mount}});
            ++i;
        }
        hook.args = std::move(rest);
    }
    std::erase_if(edits.hooks, [&](const CdiHook& hook) {
        return makes_links(hook) &&
               std::ranges::none_of(hook.args, [&](auto& arg) { return arg.starts_with(option); });
    });
    return edits;
}

/// What of the host edits need, but for nodes that are given by number.
std::vector<std::string> files_of(const CdiEdits& edits, const std::vector<DeviceNode>& known) {
    std::vector<std::string> files;
    for (const CdiNode& node : edits.nodes) {
        const auto own = std::ranges::find(known, node.path, &DeviceNode::path);
        if (own != known.end() && own->major) continue;
        files.push_back(node.host_path.empty() ? node.path : node.host_path);
    }
    for (const CdiMount& mount : edits.mounts)
        files.push_back(mount.host_path);
    for (const CdiHook& hook : edits.hooks)
        files.push_back(hook.path);
    return files;
}

}  // namespace

base::Result<std::optional<CdiSpec>> read_toolkit_spec(std::string_view text) {
    const auto manifests = kube::read_manifests(text, {.max_bytes = max_spec});
    if (!manifests || manifests->size() != 1) return std::nullopt;
    const auto document = base::parse_json(manifests->front().json, {.max_bytes = 4 * max_spec});
    if (!document || document->root()["kind"].string_or("") != toolkit_kind) return std::nullopt;
    return read_cdi_spec(document->root());
}

DriverEdits toolkit_edits(const CdiSpec& spec, const std::vector<Device>& devices) {
    DriverEdits edits{.common = with_links_mounted(in_any_boot(spec.common))};
    for (const Device& device : devices) {
        const CdiDevice* found = find_device(spec, device.uuid);
        if (found == nullptr && !device.mig)
            found = find_device(spec, fmt::format("{}", device.place.index));
        if (found != nullptr)
            edits.devices.push_back({.name = device.uuid, .edits = in_any_boot(found->edits)});
    }
    return edits;
}

std::string misfit(const DriverEdits& toolkit, std::string_view version, const OwnNodes& own) {
    if (!brings_driver(toolkit.common, version))
        return fmt::format("it brings another driver than {}, which runs", version);
    if (!std::ranges::any_of(toolkit.common.hooks, updates_cache))
        return "it has no hook update-ldcache, and programs would not find the driver";
    for (const CdiNode& node : toolkit.common.nodes)
        if (is_of_one(node.path)) return fmt::format("it gives {} to every container", node.path);
    for (const CdiDevice& device : toolkit.devices) {
        const auto nodes = own.find(device.name);
        for (const CdiNode& node : device.edits.nodes) {
            const bool is_own = nodes != own.end() && nodes->second.contains(node.path) &&
                                (node.host_path.empty() || node.host_path.ends_with(node.path));
            if (!is_own)
                return fmt::format("it gives {} to {}, whose that is not", node.path, device.name);
        }
    }
    return {};
}

std::vector<std::string> needed_files(const DriverEdits& toolkit,
                                      const std::vector<Device>& devices) {
    std::vector<std::string> files = files_of(toolkit.common, {});
    for (const Device& device : devices) {
        const auto found = std::ranges::find(toolkit.devices, device.uuid, &CdiDevice::name);
        if (found == toolkit.devices.end() || is_lost(device)) continue;
        for (std::string& file : files_of(found->edits, device.device_nodes))
            files.push_back(std::move(file));
    }
    return files;
}

DriverEdits in_place_of(DriverEdits own, DriverEdits toolkit) {
    std::swap(own.common, toolkit.common);
    own.devices = std::move(toolkit.devices);
    for (const CdiNode& node : toolkit.common.nodes) {
        if (std::ranges::find(own.common.nodes, node.path, &CdiNode::path) ==
            own.common.nodes.end())
            own.common.nodes.push_back(node);
    }
    return own;
}

}  // namespace drawbridge::agent
