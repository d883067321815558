#pragma once
// The ResourceSlices that a node should have, as the bodies of API objects (node-agent.md 7, 8).

#include "agent/device/inventory.hpp"
#include "base/json.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Whose slices they are.
struct NodeIdentity {
    std::string name = {};
    std::string uid = {};  ///< of the Node object, which owns the slices

    [[nodiscard]] bool operator==(const NodeIdentity&) const = default;
};

/// What the API server can hold.
struct SliceFeatures {
    bool taints = true;   ///< DRADeviceTaints; where it is off a faulty device is left out
    bool sharing = true;  ///< DRAConsumableCapacity; where it is off no device is offered at all

    [[nodiscard]] bool operator==(const SliceFeatures&) const = default;
};

/// The devices of one slice, as JSON texts of the elements of `spec.devices`.
using SliceDevices = std::vector<std::string>;

/// Devices a slice may hold once any of them has a taint (dra.md 1.6); kept to always, so that a
/// taint does not move devices between slices.
inline constexpr std::size_t max_slice_devices = 64;

/// The devices, cut into slices in the order of the inventory; one empty slice where there are
/// none, so that "driver there, nothing usable" is seen.
[[nodiscard]] std::vector<SliceDevices> slice_devices(const Inventory& inventory,
                                                      const SliceFeatures& features);

/// One device as an element of `spec.devices`, quantities in the API server's own form.
[[nodiscard]] std::string device_json(const Offer& offer, const SliceFeatures& features);

/// One attribute, in an object that is begun. A text is held to what the API lets an attribute
/// have, and left out where it is empty.
void write_attribute(base::JsonWriter& out, std::string_view name, std::string_view text);
void write_attribute(base::JsonWriter& out, std::string_view name, std::int64_t value);

/// The members of a device's `attributes`, in an object that is begun.
void write_attributes(base::JsonWriter& out, const Device& device);

/// Name of the slice with that index: the same for every instance of the agent, so that two at
/// once cannot both create it; in order, since the scheduler goes by name.
[[nodiscard]] std::string slice_name(std::size_t index, std::string_view node);

/// What of a slice changes from one write to the next.
struct SliceHead {
    std::string name = {};
    std::string resource_version = {};  ///< empty: to be created
    std::int64_t generation = 1;
    std::size_t slice_count = 1;
};

/// The whole object.
[[nodiscard]] std::string slice_json(const SliceHead& head, const NodeIdentity& node,
                                     const SliceDevices& devices);

/// A number of bytes as an API server writes it: the largest binary suffix without a fraction.
[[nodiscard]] std::string binary_quantity(std::int64_t bytes);

/// A version text as semver, which attributes of type version must be: `12.4` -> `12.4.0`. Empty
/// where the text does not begin with a number.
[[nodiscard]] std::string semver(std::string_view text);

}  // namespace drawbridge::agent
