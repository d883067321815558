#pragma once
// What of the NVIDIA driver lies where on the host, and how it reaches a container (node-agent.md
// 10). Reads folders and links; blocks.

#include "agent/cdi/driver_places.hpp"
#include "agent/cdi/enforcement.hpp"
#include "agent/device/device.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Where NVML may lie, in the order in which it is tried.
[[nodiscard]] std::vector<std::string> nvml_paths(const DriverRoot& root);

/// The place of a PCI device, with what sysfs says of it.
[[nodiscard]] DevicePlace place_of(const std::string& bus_id);

/// The capability nodes of a MIG instance, by what /proc/driver/nvidia says.
[[nodiscard]] std::vector<std::string> mig_nodes(const Device& card, std::int64_t gpu_instance,
                                                 std::int64_t compute_instance,
                                                 const std::string& host_root = {});

/// Control nodes, libraries of that driver version and programs, each at the path it has. Device
/// nodes are the host's, or, where that has none, those of the driver's root.
[[nodiscard]] DriverEdits driver_edits(const DriverRoot& root, std::string_view version,
                                       const std::string& host_root = {});

}  // namespace drawbridge::agent
