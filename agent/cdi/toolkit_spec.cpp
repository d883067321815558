#include "agent/cdi/toolkit_spec.hpp"

#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <fmt/format.h>

#include <algorithm>

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

}  // namespace

base::Result<std::optional<CdiSpec>> read_toolkit_spec(std::string_view text) {
    const auto manifests = kube::read_manifests(text, {.max_bytes = max_spec});
    if (!manifests || manifests->size() != 1) return std::nullopt;
    const auto document = base::parse_json(manifests->front().json, {.max_bytes = 4 * max_spec});
    if (!document || document->root()["kind"].string_or("") != toolkit_kind) return std::nullopt;
    return read_cdi_spec(document->root());
}

bool brings_driver(const CdiSpec& spec, std::string_view version) {
    const std::string library = fmt::format("/libcuda.so.{}", version);
    return std::ranges::any_of(spec.common.mounts, [&](const CdiMount& mount) {
        return mount.container_path.ends_with(library);
    });
}

std::vector<std::string> needed_files(const CdiSpec& spec) {
    std::vector<std::string> files;
    for (const CdiNode& node : spec.common.nodes)
        files.push_back(node.host_path.empty() ? node.path : node.host_path);
    for (const CdiMount& mount : spec.common.mounts)
        files.push_back(mount.host_path);
    for (const CdiHook& hook : spec.common.hooks)
        files.push_back(hook.path);
    return files;
}

DriverEdits toolkit_edits(const CdiSpec& spec, const std::vector<Device>& devices) {
    DriverEdits edits{.common = in_any_boot(spec.common)};
    for (const Device& device : devices) {
        const CdiDevice* found = find_device(spec, device.uuid);
        if (found == nullptr && !device.mig)
            found = find_device(spec, fmt::format("{}", device.place.index));
        if (found != nullptr)
            edits.devices.push_back({.name = device.uuid, .edits = in_any_boot(found->edits)});
    }
    return edits;
}

}  // namespace drawbridge::agent
