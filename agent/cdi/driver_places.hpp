#pragma once
// Where on a node the NVIDIA driver may lie, and whether the node has a GPU that wants one
// (node-agent.md 10). Reads folders and links; blocks.

#include <optional>
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

struct DriverPlaces {
    std::vector<DriverRoot> roots = {{}};  ///< tried in this order
    std::string host_root = {};            ///< the host's root as this process sees it; empty: `/`
    /// A driver is there, or will come, whatever hardware the node shows.
    bool expected = false;
    /// Where NVIDIA's container toolkit may have left a CDI specification; the first one wins.
    std::vector<std::string> cdi_folders = {};
};

/// The one root that an administrator named, or, where none was, the host's own and that of the GPU
/// Operator's driver container. The container comes second: where a host has a driver of its own
/// the Operator installs none, and what was left of one that was removed does not start.
[[nodiscard]] DriverPlaces driver_places(const std::string& host_root, const DriverRoot& named);

/// Whether the node has a graphics or compute device of NVIDIA on its PCI buses.
[[nodiscard]] bool has_nvidia_device(const std::string& host_root);

/// The path, as this process sees it, of the file that `path` names for who has `root` as its root:
/// its links do not lead out of there. Nothing where there is no such file.
[[nodiscard]] std::optional<std::string> in_root(const std::string& root, std::string_view path);

}  // namespace drawbridge::agent
