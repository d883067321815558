#include "agent/prepare/inventory_keep.hpp"

#include "agent/prepare/prepare.hpp"

#include <algorithm>
#include <set>

namespace drawbridge::agent {
namespace {

Fault lost_fault() {
    return {.key = std::string(lost_key),
            .effect = TaintEffect::no_execute,
            .message = "the driver does not show this device any more"};
}

/// The device as it was known, or what its shares tell of it after a restart.
Device lost_device(const std::string& uuid, const Inventory& before, const Amounts& held) {
    Device device{.uuid = uuid, .memory_bytes = held.memory_bytes};
    if (uuid.starts_with("MIG-")) device.type = DeviceType::mig;
    if (const Offer* offer = before.find_uuid(uuid)) device = offer->device;
    device.faults = {lost_fault()};
    return device;
}

}  // namespace

std::vector<Device> with_lost(std::vector<Device> devices, const Inventory& before,
                              const ClaimRecords& records) {
    std::set<std::string> known;
    for (const Device& device : devices)
        known.insert(device.uuid);
    for (const ClaimRecord& record : records) {
        if (record.state == ClaimState::unprepared) continue;
        for (const Share& share : record.shares) {
            if (!known.insert(share.uuid).second) continue;
            devices.push_back(lost_device(share.uuid, before, committed(records, share.uuid)));
        }
    }
    return devices;
}

PublishedSizes with_committed(PublishedSizes sizes, const NodeSettings& settings,
                              const std::vector<Device>& devices, const ClaimRecords& records) {
    if (!settings.accept_memory_sizes) {
        // What was published holds, and no claim was given more than that.
        return sizes;
    }
    PublishedSizes raised;
    for (const Device& device : devices) {
        const std::int64_t held = committed(records, device.uuid).memory_bytes;
        if (held > offered_memory(device, settings)) raised[device.uuid] = held;
    }
    return raised;
}

}  // namespace drawbridge::agent
