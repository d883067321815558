#include "agent/device/inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace drawbridge::agent {
namespace {

constexpr std::int64_t mib = 1 << 20;
constexpr std::int64_t full_cores = 100;

bool is_excluded(const Device& device, const DeviceFilter& filter) {
    const std::string& card = device.mig ? device.mig->parent_uuid : device.uuid;
    return std::ranges::find(filter.uuids, device.uuid) != filter.uuids.end() ||
           std::ranges::find(filter.uuids, card) != filter.uuids.end() ||
           std::ranges::find(filter.indices, device.place.index) != filter.indices.end();
}

/// By PCI address, since the order is the packing policy (dra.md 2.4) and must not change with the
/// driver's own numbering; the UUID orders the instances of one card.
bool comes_before(const Offer& left, const Offer& right) {
    const auto key = [](const Offer& offer) {
        return std::tie(offer.device.place.pci_bus_id, offer.device.uuid);
    };
    return key(left) < key(right);
}

Amounts capacity_of(const Device& device, const NodeSettings& settings,
                    const PublishedSizes& published) {
    Amounts capacity{.memory_bytes = offered_memory(device, settings),
                     .cores = full_cores,
                     .slots = settings.split_count};
    if (!device.mig)
        capacity.cores =
            std::max<std::int64_t>(1, std::llround(full_cores * settings.core_scaling));
    const auto before = published.find(device.uuid);
    if (before != published.end()) capacity.memory_bytes = before->second;
    return capacity;
}

}  // namespace

Amounts& Amounts::operator+=(const Amounts& other) {
    memory_bytes += other.memory_bytes;
    cores += other.cores;
    slots += other.slots;
    return *this;
}

std::int64_t offered_memory(const Device& device, const NodeSettings& settings) {
    const double scaling = device.mig ? 1 : settings.memory_scaling;
    const auto total =
        static_cast<std::int64_t>(static_cast<double>(device.memory_bytes / mib) * scaling);
    return std::max<std::int64_t>(1, total - settings.headroom_mib) * mib;
}

base::Result<Inventory> Inventory::make(std::vector<Device> devices, const NodeSettings& settings,
                                        const PublishedSizes& published) {
    Inventory made;
    for (Device& device : devices) {
        if (is_excluded(device, settings.exclude)) continue;
        Offer offer;
        offer.name = device_name(device);
        offer.capacity = capacity_of(device, settings, published);
        offer.device = std::move(device);
        if (made.find(offer.name) != nullptr) {
            return base::fail(base::ErrorKind::internal,
                              fmt::format("two devices are called {}", offer.name));
        }
        made.offers_.push_back(std::move(offer));
    }
    std::ranges::sort(made.offers_, comes_before);
    return made;
}

const Offer* Inventory::find(std::string_view name) const {
    const auto found = std::ranges::find(offers_, name, &Offer::name);
    return found == offers_.end() ? nullptr : &*found;
}

const Offer* Inventory::find_uuid(std::string_view uuid) const {
    const auto found = std::ranges::find_if(
        offers_, [&](const Offer& offer) { return offer.device.uuid == uuid; });
    return found == offers_.end() ? nullptr : &*found;
}

Inventory Inventory::with_fault(const Fault& fault) const {
    Inventory made = *this;
    for (Offer& offer : made.offers_) {
        if (!has_fault(offer.device, fault.key)) offer.device.faults.push_back(fault);
    }
    return made;
}

PublishedSizes Inventory::sizes() const {
    PublishedSizes sizes;
    for (const Offer& offer : offers_)
        sizes.emplace(offer.device.uuid, offer.capacity.memory_bytes);
    return sizes;
}

}  // namespace drawbridge::agent
