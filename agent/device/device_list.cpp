#include "agent/device/device_list.hpp"

#include "agent/json_reader.hpp"
#include "kube/manifest.hpp"

#include <fmt/format.h>

#include <set>

namespace drawbridge::agent {
namespace {

using base::Result;

constexpr std::size_t max_devices = 512;
constexpr std::size_t max_file = 1U << 20U;

std::vector<Fault> read_faults(JsonReader& reader, const Spot& spot) {
    std::vector<Fault> faults;
    for (const Spot& at : reader.list(spot)) {
        reader.members(at, {"key", "value", "effect", "message"});
        Fault fault{.key = reader.text(at["key"]),
                    .value = reader.text_or(at["value"], ""),
                    .message = reader.text_or(at["message"], "")};
        const auto effect = effect_from_name(reader.text_or(at["effect"], "NoSchedule"));
        if (!effect) reader.refuse(at["effect"], "None, NoSchedule or NoExecute is expected");
        fault.effect = effect.value_or(TaintEffect::no_schedule);
        faults.push_back(std::move(fault));
    }
    return faults;
}

Device read_device(JsonReader& reader, const Spot& at) {
    reader.members(at, {"uuid", "productName", "brand", "architecture", "memory", "pciBusID",
                        "pcieRoot", "numaNode", "driverVersion", "cudaDriverVersion",
                        "cudaComputeCapability", "deviceNodes", "taints"});
    Device device;
    device.uuid = reader.text(at["uuid"]);
    device.product_name = reader.text_or(at["productName"], "");
    device.brand = reader.text_or(at["brand"], "");
    device.architecture = reader.text_or(at["architecture"], "");
    device.memory_bytes = reader.bytes(at["memory"]);
    device.place.pci_bus_id = normal_bus_id(reader.text_or(at["pciBusID"], ""));
    device.place.pcie_root = reader.text_or(at["pcieRoot"], "");
    if (!at["numaNode"].is_absent())
        device.place.numa_node = reader.whole(at["numaNode"], {0, 4095});
    device.versions = {.driver = reader.text_or(at["driverVersion"], ""),
                       .cuda_driver = reader.text_or(at["cudaDriverVersion"], ""),
                       .compute_capability = reader.text_or(at["cudaComputeCapability"], "")};
    for (std::string& path : reader.texts(at["deviceNodes"]))
        device.device_nodes.push_back({.path = std::move(path)});
    device.faults = read_faults(reader, at["taints"]);
    return device;
}

}  // namespace

Result<std::vector<Device>> read_device_list(base::JsonView document) {
    JsonReader reader;
    const Spot root{document};
    reader.members(root, {"apiVersion", "kind", "devices"});
    reader.kind(root, "drawbridge.dev/v1", "DeviceList");
    std::vector<Device> devices;
    std::set<std::string> seen;
    const auto spots = reader.list(root["devices"]);
    if (spots.size() > max_devices)
        reader.refuse(root["devices"], fmt::format("at most {} devices are read", max_devices));
    for (const Spot& at : spots) {
        if (!reader.ok()) break;
        devices.push_back(read_device(reader, at));
        devices.back().place.index = static_cast<std::int64_t>(devices.size() - 1);
        if (!seen.insert(devices.back().uuid).second)
            reader.refuse(at["uuid"], fmt::format("{} comes twice", devices.back().uuid));
    }
    if (!reader.ok()) return reader.error();
    return devices;
}

Result<std::vector<Device>> parse_device_list(std::string_view text) {
    const auto manifests = kube::read_manifests(text, {.max_bytes = max_file});
    if (!manifests) return tl::unexpected(manifests.error());
    if (manifests->size() != 1) {
        return base::fail(base::ErrorKind::invalid_input, "one document is expected");
    }
    const auto document = base::parse_json(manifests->front().json, {.max_bytes = 4 * max_file});
    if (!document) return tl::unexpected(document.error());
    return read_device_list(document->root());
}

}  // namespace drawbridge::agent
