#include "agent/cdi/enforcement.hpp"

#include "preload/abi.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace drawbridge::agent {
namespace {

const std::vector<std::string> read_only = {"ro", "nosuid", "nodev", "noexec", "bind"};
const std::vector<std::string> read_write = {"rw", "nosuid", "nodev", "noexec", "bind"};
// The library is mapped as code.
const std::vector<std::string> executable = {"ro", "nosuid", "nodev", "bind"};

// Images carry NVIDIA_VISIBLE_DEVICES=all, at which a runtime of NVIDIA's would add every GPU.
constexpr std::string_view visible = "NVIDIA_VISIBLE_DEVICES=void";

CdiEdits share_files(const std::string& name, const std::string& shares_folder) {
    const std::string host = fmt::format("{}/{}", shares_folder, name);
    const std::string inside =
        fmt::format("{}/{}/{}", DRAWBRIDGE_ROOT, DRAWBRIDGE_SHARES_FOLDER, name);
    CdiEdits edits;
    edits.mounts = {{.host_path = fmt::format("{}/{}", host, DRAWBRIDGE_LIMITS_FILE),
                     .container_path = fmt::format("{}/{}", inside, DRAWBRIDGE_LIMITS_FILE),
                     .options = read_only},
                    {.host_path = fmt::format("{}/{}", host, DRAWBRIDGE_LEDGER_FILE),
                     .container_path = fmt::format("{}/{}", inside, DRAWBRIDGE_LEDGER_FILE),
                     .options = read_write}};
    return edits;
}

CdiEdits library_files(const LibraryFiles& library) {
    CdiEdits edits;
    if (library.library.empty()) return edits;
    edits.mounts = {{.host_path = library.library,
                     .container_path = library_path_inside(),
                     .options = executable},
                    {.host_path = library.preload,
                     .container_path = "/etc/ld.so.preload",
                     .options = read_only}};
    return edits;
}

bool is_libcuda(const CdiMount& mount) {
    const std::string_view path = mount.container_path;
    return path.substr(path.rfind('/') + 1).starts_with("libcuda.so");
}

/// The nodes of the share's device, each once: as the driver's edits have it, but for one that the
/// host need not have.
CdiEdits device_nodes(const Share& share, const Inventory& inventory, const DriverEdits& driver) {
    CdiEdits edits;
    const auto found = std::ranges::find(driver.devices, share.uuid, &CdiDevice::name);
    if (found != driver.devices.end()) edits = found->edits;
    const Offer* offer = inventory.find_uuid(share.uuid);
    if (offer == nullptr) return edits;
    for (const DeviceNode& node : offer->device.device_nodes) {
        const auto told = std::ranges::find(edits.nodes, node.path, &CdiNode::path);
        if (told == edits.nodes.end())
            edits.nodes.push_back(node_below(driver.node_root, node));
        else if (node.major)
            *told = node_below(driver.node_root, node);
    }
    return edits;
}

/// Place of a GPU among those of the claim, in the order of their PCI addresses.
std::map<std::string, std::size_t> indices_of(const std::vector<Share>& shares,
                                              const Inventory& inventory) {
    std::map<std::string, std::size_t> indices;
    for (const Offer& offer : inventory.offers()) {
        const auto is_his = [&](const Share& share) { return share.uuid == offer.device.uuid; };
        if (std::ranges::any_of(shares, is_his)) indices.emplace(offer.device.uuid, indices.size());
    }
    return indices;
}

bool is_node_of(const CdiNode& node, const Device& device) {
    const auto own = std::ranges::find(device.device_nodes, node.path, &DeviceNode::path);
    if (own == device.device_nodes.end()) return !node.path.starts_with("/dev/nvidia");
    return !own->major || (own->major == node.major && own->minor == node.minor);
}

}  // namespace

std::vector<std::string> legacy_variables(const std::vector<Share>& shares,
                                          const Inventory& inventory) {
    std::map<std::size_t, Amounts> sums;
    const auto indices = indices_of(shares, inventory);
    for (const Share& share : shares) {
        const auto index = indices.find(share.uuid);
        if (index == indices.end() || share.admin) return {};
        sums[index->second] += share.amounts;
    }
    std::vector<std::string> variables = {"CUDA_DEVICE_ORDER=PCI_BUS_ID"};
    for (const auto& [index, sum] : sums) {
        variables.push_back(
            fmt::format("CUDA_DEVICE_MEMORY_LIMIT_{}={}m", index, sum.memory_bytes >> 20));
        // HAMi-core reads 0 as "look elsewhere", and 100 as no limit: a share without a compute
        // limit says 100.
        const std::int64_t cores = sum.cores <= 0 ? 100 : std::min<std::int64_t>(sum.cores, 100);
        variables.push_back(fmt::format("CUDA_DEVICE_SM_LIMIT_{}={}", index, cores));
    }
    return variables;
}

CdiNode node_below(const std::string& root, const DeviceNode& node) {
    return {.path = node.path,
            .host_path = root.empty() ? std::string() : root + node.path,
            .major = node.major,
            .minor = node.minor};
}

DriverEdits behind_front(DriverEdits driver, const std::string& front) {
    std::optional<CdiMount> own;
    for (CdiMount& mount : driver.common.mounts) {
        if (!is_libcuda(mount)) continue;
        if (!own) own = mount;
        mount.host_path = front;
        mount.options = executable;
    }
    if (!own) return driver;
    own->container_path = DRAWBRIDGE_DRIVER_FILE;
    driver.common.mounts.push_back(*std::move(own));
    // An image's newer libcuda before the front would be the front's way past.
    std::erase_if(driver.common.hooks, [](const CdiHook& hook) {
        return std::ranges::find(hook.args, "enable-cuda-compat") != hook.args.end();
    });
    return driver;
}

bool gives_own_nodes(const CdiSpec& file, const std::vector<Share>& shares,
                     const Inventory& inventory) {
    for (std::size_t i = 0; i < std::min(shares.size(), file.devices.size()); ++i) {
        const Offer* offer = inventory.find_uuid(shares[i].uuid);
        if (offer == nullptr || is_lost(offer->device)) continue;
        const Device& device = offer->device;
        const std::vector<CdiNode>& nodes = file.devices[i].edits.nodes;
        const auto is_own = [&](const CdiNode& node) { return is_node_of(node, device); };
        const auto is_given = [&](const DeviceNode& node) {
            return std::ranges::find(nodes, node.path, &CdiNode::path) != nodes.end();
        };
        if (device.device_nodes.empty()) continue;
        if (!std::ranges::all_of(nodes, is_own)) return false;
        if (!std::ranges::all_of(device.device_nodes, is_given)) return false;
    }
    return true;
}

CdiSpec claim_spec(std::string_view claim_uid, const std::vector<Share>& shares,
                   const Inventory& inventory, const ContainerView& view) {
    const bool limited =
        std::ranges::any_of(shares, [](const Share& share) { return !share.admin; });
    const bool fronted = limited && !view.library.front.empty();
    const DriverEdits driver =
        fronted ? behind_front(view.driver, view.library.front) : view.driver;
    CdiSpec spec;
    spec.common = driver.common;
    CdiEdits ours{.env = {std::string(visible)}};
    if (limited) add_edits(ours, library_files(view.library));
    add_edits(spec.common, ours);
    std::vector<std::string> variables;
    if (view.legacy_variables) variables = legacy_variables(shares, inventory);
    add_edits(spec.common, {.env = variables});
    for (std::size_t i = 0; i < shares.size(); ++i) {
        CdiDevice device{.name = share_name(claim_uid, i),
                         .edits = device_nodes(shares[i], inventory, driver)};
        if (!shares[i].admin) add_edits(device.edits, share_files(device.name, view.shares_folder));
        spec.devices.push_back(std::move(device));
    }
    return spec;
}

}  // namespace drawbridge::agent
