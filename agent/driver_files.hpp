#pragma once
// What of the NVIDIA driver lies where on the host, and how it reaches a container (node-agent.md
// 10). Reads folders and links; blocks.

#include "agent/device.hpp"
#include "agent/enforcement.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Where the driver is: `seen` is the folder as this process sees it, `host` the same folder's path
/// on the host, which is what CDI files name. Both are empty for the host's own root.
struct DriverRoot {
    std::string seen = {};
    std::string host = {};
};

/// Where NVML may lie, in the order in which it is tried.
[[nodiscard]] std::vector<std::string> nvml_paths(const DriverRoot& root);

/// The place of a PCI device, with what sysfs says of it.
[[nodiscard]] DevicePlace place_of(const std::string& bus_id);

/// The capability nodes of a MIG instance, by what /proc/driver/nvidia says.
[[nodiscard]] std::vector<std::string> mig_nodes(const Device& card, std::int64_t gpu_instance,
                                                 std::int64_t compute_instance);

/// Control nodes, libraries of that driver version and programs, each at the path it has.
[[nodiscard]] DriverEdits driver_edits(const DriverRoot& root, std::string_view version);

}  // namespace drawbridge::agent
