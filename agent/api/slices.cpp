#include "agent/api/slices.hpp"

#include "agent/api/api_text.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace drawbridge::agent {
namespace {

using base::JsonWriter;

constexpr std::size_t max_text = 64;   // of an attribute
constexpr std::size_t max_name = 253;  // of an API object

/// Left out where it is empty.
void write_typed(JsonWriter& out, std::string_view name, std::string_view type,
                 std::string_view text) {
    if (text.empty()) return;
    out.key(name).begin_object().member(type, bounded_text(text, max_text)).end_object();
}

/// A capacity of which shares are taken in steps; what a claim does not name is all of it (dra.md
/// 2.7). A range must leave room for one step (dra.md 1.6), so one that does not is a single value.
struct Capacity {
    std::string_view name;
    std::int64_t value = 0;
    std::int64_t least = 0;
    std::int64_t step = 1;
    std::string (*text)(std::int64_t);
};

void write_capacity(JsonWriter& out, const Capacity& capacity) {
    const std::string all = capacity.text(capacity.value);
    out.key(capacity.name).begin_object();
    out.key("requestPolicy").begin_object().member("default", all);
    if (capacity.least + capacity.step > capacity.value) {
        out.key("validValues").begin_array().string(all).end_array();
    } else {
        out.key("validRange").begin_object();
        out.member("max", all).member("min", capacity.text(capacity.least));
        out.member("step", capacity.text(capacity.step)).end_object();
    }
    out.end_object();
    out.member("value", all).end_object();
}

void write_taints(JsonWriter& out, const Device& device) {
    if (device.faults.empty()) return;
    out.key("taints").begin_array();
    for (const Fault& fault : device.faults) {
        out.begin_object().member("effect", effect_name(fault.effect));
        out.member("key", fmt::format("{}/{}", driver_name, fault.key));
        if (!fault.value.empty()) out.member("value", fault.value);
        out.end_object();
    }
    out.end_array();
}

std::string plain(std::int64_t value) {
    return std::to_string(value);
}

/// Whether a device can be offered where the server knows no taints (node-agent.md 12).
bool is_usable(const Device& device) {
    return std::ranges::all_of(
        device.faults, [](const Fault& fault) { return fault.effect == TaintEffect::none; });
}

}  // namespace

void write_attribute(JsonWriter& out, std::string_view name, std::string_view text) {
    write_typed(out, name, "string", text);
}

void write_attribute(JsonWriter& out, std::string_view name, std::int64_t value) {
    out.key(name).begin_object().key("int").integer(value).end_object();
}

void write_attributes(JsonWriter& out, const Device& device) {
    write_attribute(out, "architecture", device.architecture);
    write_attribute(out, "brand", device.brand);
    write_typed(out, "cudaComputeCapability", "version",
                semver(device.versions.compute_capability));
    write_typed(out, "cudaDriverVersion", "version", semver(device.versions.cuda_driver));
    write_typed(out, "driverVersion", "version", semver(device.versions.driver));
    write_attribute(out, "index", device.place.index);
    if (device.place.numa_node) write_attribute(out, "numaNode", *device.place.numa_node);
    if (device.mig) write_attribute(out, "parentUUID", device.mig->parent_uuid);
    write_attribute(out, "productName", device.product_name);
    write_attribute(out, "resource.kubernetes.io/pciBusID", device.place.pci_bus_id);
    write_attribute(out, "resource.kubernetes.io/pcieRoot", device.place.pcie_root);
    write_attribute(out, "type", std::string_view(device.type == DeviceType::mig ? "mig" : "gpu"));
    write_attribute(out, "uuid", device.uuid);
}

std::string binary_quantity(std::int64_t bytes) {
    constexpr std::array<std::string_view, 7> suffixes = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    std::size_t suffix = 0;
    while (bytes != 0 && bytes % 1024 == 0 && suffix + 1 < suffixes.size()) {
        bytes /= 1024;
        ++suffix;
    }
    return fmt::format("{}{}", bytes, suffixes[suffix]);
}

std::string semver(std::string_view text) {
    std::string version;
    int parts = 0;
    while (parts < 3) {
        std::size_t digits = 0;
        while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9')
            ++digits;
        if (digits == 0) break;
        std::string_view number = text.substr(0, digits);
        while (number.size() > 1 && number.front() == '0')  // semver has no leading zeros
            number.remove_prefix(1);
        version += fmt::format("{}{}", parts == 0 ? "" : ".", number);
        ++parts;
        if (digits == text.size() || text[digits] != '.') break;
        text.remove_prefix(digits + 1);
    }
    if (parts == 0) return {};
    for (; parts < 3; ++parts)
        version += ".0";
    return version;
}

std::string device_json(const Offer& offer, const SliceFeatures& features) {
    JsonWriter out;
    constexpr std::int64_t mib = 1 << 20;
    out.begin_object().key("allowMultipleAllocations").boolean(true);
    out.key("attributes").begin_object();
    write_attributes(out, offer.device);
    out.end_object().key("capacity").begin_object();
    write_capacity(out, {.name = "cores", .value = offer.capacity.cores, .text = plain});
    write_capacity(out, {.name = "memory",
                         .value = offer.capacity.memory_bytes,
                         .least = mib,
                         .step = mib,
                         .text = binary_quantity});
    write_capacity(out,
                   {.name = "slots", .value = offer.capacity.slots, .least = 1, .text = plain});
    out.end_object();
    out.member("name", offer.name);
    if (features.taints) write_taints(out, offer.device);
    out.end_object();
    return out.take();
}

std::vector<SliceDevices> slice_devices(const Inventory& inventory, const SliceFeatures& features) {
    std::vector<SliceDevices> slices(1);
    if (!features.sharing) return slices;
    for (const Offer& offer : inventory.offers()) {
        if (!features.taints && !is_usable(offer.device)) continue;
        if (slices.back().size() == max_slice_devices) slices.emplace_back();
        slices.back().push_back(device_json(offer, features));
    }
    return slices;
}

std::string slice_name(std::size_t index, std::string_view node) {
    std::string name = fmt::format("{:05x}-{}-{}", index, driver_name, node);
    if (name.size() <= max_name) return name;
    constexpr std::size_t hash_chars = 16;
    const std::string hash = base::base32_lower(base::sha256(node), hash_chars);
    name.resize(max_name - hash_chars - 1);
    // What is cut may end in a dot, behind which no hyphen may stand.
    while (name.back() == '.' || name.back() == '-')
        name.pop_back();
    return fmt::format("{}-{}", name, hash);
}

std::string slice_json(const SliceHead& head, const NodeIdentity& node,
                       const SliceDevices& devices) {
    JsonWriter out;
    out.begin_object().member("apiVersion", "resource.k8s.io/v1").member("kind", "ResourceSlice");
    out.key("metadata").begin_object().member("name", head.name);
    out.key("ownerReferences").begin_array().begin_object();
    out.member("apiVersion", "v1").key("controller").boolean(true).member("kind", "Node");
    out.member("name", node.name).member("uid", node.uid).end_object().end_array();
    if (!head.resource_version.empty()) out.member("resourceVersion", head.resource_version);
    out.end_object();
    out.key("spec").begin_object().key("devices").begin_array();
    for (const std::string& device : devices)
        out.raw(device);
    out.end_array().member("driver", driver_name).member("nodeName", node.name);
    out.key("pool").begin_object().key("generation").integer(head.generation);
    out.member("name", node.name).key("resourceSliceCount");
    out.integer(static_cast<std::int64_t>(head.slice_count)).end_object();
    out.end_object().end_object();
    return out.take();
}

}  // namespace drawbridge::agent
