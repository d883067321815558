#include "agent/cdi_spec.hpp"
#include "agent/device_source.hpp"
#include "agent/driver_files.hpp"
#include "agent/fault_tracker.hpp"
#include "agent/nvml/nvml_library.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::Result;

/// GPUs as NVML shows them. A look opens the library where it is not open, and closes it when it
/// knows no device any more: a driver that was loaded anew is seen by a new NVML alone.
class NvmlSource final : public DeviceSource {
public:
    explicit NvmlSource(DriverRoot root) : root_(std::move(root)) {}

    Result<std::vector<Device>> read() override {
        if (!nvml_) {
            auto opened = NvmlLibrary::open(nvml_paths(root_));
            if (!opened) return tl::unexpected(opened.error());
            nvml_ = std::move(*opened);
            watched_.clear();
        }
        const auto count = nvml_->device_count();
        if (!count) {
            nvml_.reset();
            return tl::unexpected(count.error());
        }
        take_events();
        std::vector<Device> devices;
        for (unsigned index = 0; index < *count; ++index)
            add_card(index, devices);
        return devices;
    }

    Result<DriverEdits> edits() override {
        return driver_edits(root_, nvml_ ? nvml_->driver_version() : std::string());
    }

    std::string name() const override { return "NVML"; }

    XidCounts xids() const override { return tracker_.xids(); }

private:
    /// A card and what was offered of it: itself, or its MIG instances.
    struct Known {
        std::string uuid;
        std::vector<Device> devices;
    };

    void take_events() {
        for (const NvmlEvent& event : nvml_->events()) {
            std::string uuid;
            if (nvml_->uuid(event.device, uuid) == NvmlCode::success)
                xids_[uuid].push_back(event.xid);
        }
    }

    /// The card, or its MIG instances in its place: both at once would give memory away twice.
    void add_card(unsigned index, std::vector<Device>& devices) {
        NvmlHandle handle = nullptr;
        std::string uuid;
        std::uint64_t memory = 0;
        NvmlCode code = nvml_->device(index, handle);
        if (code == NvmlCode::success) code = nvml_->uuid(handle, uuid);
        if (code == NvmlCode::success) code = nvml_->total_memory(handle, memory);
        if (code != NvmlCode::success) return add_silent(index, code, devices);
        Device card = describe(handle, uuid, memory);
        card.place.index = index;
        card.faults = tracker_.look(uuid, probe_of(handle, uuid));
        std::vector<Device> found;
        if (!nvml_->is_mig_enabled(handle)) {
            found.push_back(std::move(card));
        } else {
            for (const NvmlHandle mig : nvml_->mig_devices(handle))
                add_instance(card, mig, found);
            tell_empty(card, found.empty());
        }
        devices.insert(devices.end(), found.begin(), found.end());
        known_[index] = {.uuid = uuid, .devices = std::move(found)};
    }

    /// A card in MIG mode is not offered as a whole, and so not at all before it has instances.
    void tell_empty(const Device& card, bool empty) {
        const bool told = empty_.contains(card.uuid);
        if (empty == told) return;
        if (!empty) {
            empty_.erase(card.uuid);
            return;
        }
        empty_.insert(card.uuid);
        base::log_event(base::Level::warn, "mig_without_instances", {{"uuid", card.uuid}});
    }

    /// A card that was there before and does not answer now is lost; it is named, and no other.
    void add_silent(unsigned index, NvmlCode code, std::vector<Device>& devices) {
        const auto known = known_.find(index);
        base::log_event(
            base::Level::warn, "gpu_silent",
            {{"index", std::int64_t{index}}, {"code", static_cast<std::int64_t>(code)}});
        if (known == known_.end()) return;
        const auto faults = tracker_.look(known->second.uuid, {.answers = false});
        for (Device device : known->second.devices) {
            device.faults = faults;
            devices.push_back(std::move(device));
        }
    }

    Device describe(NvmlHandle handle, const std::string& uuid, std::uint64_t memory) {
        Device device{.uuid = uuid,
                      .product_name = nvml_->name(handle),
                      .architecture = nvml_->architecture(handle),
                      .place = place_of(nvml_->pci_bus_id(handle)),
                      .versions = {.driver = nvml_->driver_version(),
                                   .cuda_driver = nvml_->cuda_version(),
                                   .compute_capability = nvml_->compute_capability(handle)},
                      .memory_bytes = static_cast<std::int64_t>(memory)};
        if (const auto minor = nvml_->minor(handle))
            device.device_nodes = {fmt::format("/dev/nvidia{}", *minor)};
        return device;
    }

    DeviceProbe probe_of(NvmlHandle handle, const std::string& uuid) {
        auto watched = watched_.find(uuid);
        if (watched == watched_.end()) watched = watched_.emplace(uuid, nvml_->watch(handle)).first;
        return {.reset_required = nvml_->has_pending_remap(handle),
                .monitored = watched->second,
                .xids = std::exchange(xids_[uuid], {})};
    }

    void add_instance(const Device& card, NvmlHandle mig, std::vector<Device>& devices) {
        std::string uuid;
        std::uint64_t memory = 0;
        const auto ids = nvml_->instance_ids(mig);
        if (!ids || nvml_->uuid(mig, uuid) != NvmlCode::success ||
            nvml_->total_memory(mig, memory) != NvmlCode::success)
            return;
        Device device = card;
        device.uuid = uuid;
        device.type = DeviceType::mig;
        device.memory_bytes = static_cast<std::int64_t>(memory);
        const std::string name = nvml_->name(mig);
        if (!name.empty()) device.product_name = name;
        device.mig = MigPlace{card.uuid, ids->first, ids->second};
        for (const std::string& node : mig_nodes(card, ids->first, ids->second))
            device.device_nodes.push_back(node);
        devices.push_back(std::move(device));
    }

    DriverRoot root_;
    std::unique_ptr<NvmlLibrary> nvml_;
    FaultTracker tracker_;
    std::map<unsigned, Known> known_;  ///< by index: what a silent card was
    std::set<std::string> empty_;      ///< cards in MIG mode without instances
    std::map<std::string, bool> watched_;
    std::map<std::string, std::vector<std::int64_t>> xids_;
};

}  // namespace

std::unique_ptr<DeviceSource> make_nvml_source(DriverRoot root) {
    return std::make_unique<NvmlSource>(std::move(root));
}

}  // namespace drawbridge::agent
