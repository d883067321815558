#pragma once
// What of the NVIDIA driver lies where on the host, and how it reaches a container (node-agent.md
// 10). Reads folders and links; blocks.

#include "agent/cdi/driver_places.hpp"
#include "agent/cdi/enforcement.hpp"
#include "agent/device/device.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Where NVML may lie, in the order in which it is tried.
[[nodiscard]] std::vector<std::string> nvml_paths(const DriverRoot& root);

/// The place of a PCI device, with what sysfs says of it.
[[nodiscard]] DevicePlace place_of(const std::string& bus_id);

/// The nodes of a PCI device below /dev/dri, by what sysfs says: they are counted anew at each
/// boot.
[[nodiscard]] std::vector<std::string> graphics_nodes(const std::string& bus_id,
                                                      const std::string& host_root = {});

/// The capability nodes of a MIG instance, by what /proc/driver/nvidia says. The driver makes them
/// when it is asked to, so that the host may not have them yet.
[[nodiscard]] std::vector<DeviceNode> mig_nodes(const Device& card, std::int64_t gpu_instance,
                                                std::int64_t compute_instance,
                                                const std::string& host_root = {});

/// Control nodes, libraries of that driver version where the linkers of images look, and programs.
/// Device nodes are the host's, or, where that has none, those of the driver's root. A control node
/// that is not there is told where CUDA needs it.
[[nodiscard]] DriverEdits driver_edits(const DriverRoot& root, std::string_view version,
                                       const std::string& host_root = {});

/// When each folder that `driver_edits` looks into was changed; the least time for one that is not
/// there. While they stay as they are, so does what it finds.
[[nodiscard]] std::vector<std::filesystem::file_time_type> driver_folder_times(
    const DriverRoot& root, const std::string& host_root = {});

}  // namespace drawbridge::agent
