#pragma once
// What a node knows of a GPU, and the name it is published under.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

inline constexpr std::string_view driver_name = "gpu.drawbridge.dev";

enum class DeviceType { gpu, mig };

/// Where a device sits.
struct DevicePlace {
    std::string pci_bus_id = {};  ///< `0000:3b:00.0`, lower case
    std::string pcie_root = {};   ///< `pci0000:3a`; empty: unknown
    std::optional<std::int64_t> numa_node = std::nullopt;
    std::int64_t index = 0;  ///< the driver's own count; for people, never an identity

    [[nodiscard]] bool operator==(const DevicePlace&) const = default;
};

/// Versions as the driver writes them, empty where unknown.
struct DeviceVersions {
    std::string driver = {};
    std::string cuda_driver = {};
    std::string compute_capability = {};

    [[nodiscard]] bool operator==(const DeviceVersions&) const = default;
};

/// A MIG instance inside its card.
struct MigPlace {
    std::string parent_uuid = {};
    std::int64_t gpu_instance = 0;
    std::int64_t compute_instance = 0;

    [[nodiscard]] bool operator==(const MigPlace&) const = default;
};

/// What a taint does; each is worse than the one before.
enum class TaintEffect { none, no_schedule, no_execute };

/// The effect's name in the API.
[[nodiscard]] std::string_view effect_name(TaintEffect effect);
[[nodiscard]] std::optional<TaintEffect> effect_from_name(std::string_view name);

/// Something that is wrong with a device: one for each dimension (node-agent.md 12).
struct Fault {
    std::string key = {};    ///< without domain: `xid`, `gpu-lost`, ...
    std::string value = {};  ///< may be empty
    TaintEffect effect = TaintEffect::no_schedule;
    std::string message = {};  ///< for people, at most 1024 bytes

    [[nodiscard]] bool operator==(const Fault&) const = default;
};

/// Key of the fault of a device that does not answer any more.
inline constexpr std::string_view lost_key = "gpu-lost";
/// Key of the fault of a device of which the driver tells nothing: unloaded, being replaced,
/// broken.
inline constexpr std::string_view driver_key = "driver-failed";

/// A device node on the host.
struct DeviceNode {
    std::string path = {};
    /// Both of one that the host need not have: a container gets it by them.
    std::optional<std::int64_t> major = std::nullopt;
    std::optional<std::int64_t> minor = std::nullopt;

    [[nodiscard]] bool operator==(const DeviceNode&) const = default;
};

struct Device {
    std::string uuid = {};  ///< identity: `GPU-...` or `MIG-...`
    DeviceType type = DeviceType::gpu;
    std::string product_name = {};
    std::string brand = {};
    std::string architecture = {};
    DevicePlace place = {};
    DeviceVersions versions = {};
    std::int64_t memory_bytes = 0;               ///< all of it, as the driver says
    std::optional<MigPlace> mig = std::nullopt;  ///< of a MIG instance
    std::vector<Fault> faults = {};              ///< by key, each key once
    std::vector<DeviceNode> device_nodes = {};   ///< beside the common ones

    [[nodiscard]] bool operator==(const Device&) const = default;
};

[[nodiscard]] bool has_fault(const Device& device, std::string_view key);
[[nodiscard]] bool is_lost(const Device& device);

/// The name in the slice: a DNS label made of the UUID alone, so that it stays over reboots, moved
/// cards and other driver versions.
[[nodiscard]] std::string device_name(const Device& device);

/// A PCI address in the kernel's form: NVML's eight-digit domains are cut to four where they fit,
/// letters are lower case. Other text comes back as it is.
[[nodiscard]] std::string normal_bus_id(std::string_view text);

}  // namespace drawbridge::agent
