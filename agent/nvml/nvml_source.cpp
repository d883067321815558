#include "agent/cdi/cdi_spec.hpp"
#include "agent/cdi/driver_files.hpp"
#include "agent/cdi/toolkit_files.hpp"
#include "agent/device/fault_tracker.hpp"
#include "agent/nvml/nvml_library.hpp"
#include "agent/source/device_source.hpp"
#include "base/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::Result;

std::string_view card_of(const Device& device) {
    return device.mig ? device.mig->parent_uuid : device.uuid;
}

/// The first look has no time before it; one after a pause is not longer than a few seconds.
GpuTime time_of(const std::vector<NvmlUse>& uses, std::uint32_t pid, std::uint64_t before_us) {
    constexpr std::uint64_t second_us = 1'000'000;
    constexpr std::uint64_t longest_us = 5 * second_us;
    const auto use = std::ranges::find(uses, pid, &NvmlUse::pid);
    if (use == uses.end()) return {};
    const std::uint64_t span =
        before_us == 0 ? second_us
                       : std::min(use->time_us - std::min(use->time_us, before_us), longest_us);
    return {.permille = use->percent * 10, .ns = span * 1000 / 100 * use->percent};
}

/// What a card's answer says of it.
DeviceProbe silent_probe(NvmlCode code) {
    if (code == NvmlCode::gpu_lost) return {.answers = false};
    if (code == NvmlCode::reset_required) return {.reset_required = true};
    return {.driver_works = false};
}

using FileTimes = std::vector<std::filesystem::file_time_type>;

/// Whether a folder that is changed once more has another time then: file systems count in ticks.
bool is_settled(const FileTimes& times) {
    constexpr std::chrono::seconds tick{2};
    const auto now = std::filesystem::file_time_type::clock::now();
    return std::ranges::max(times) + tick < now;
}

/// GPUs as NVML shows them. A look opens the library where it is not open, and closes it when the
/// driver fails: one that was loaded anew is seen by a new NVML alone. Until then the GPUs are
/// those that were there before, with a fault.
class NvmlSource final : public DeviceSource {
public:
    explicit NvmlSource(DriverPlaces places)
        : places_(std::move(places)), toolkit_(places_.cdi_folders, places_.host_root) {}

    Result<std::vector<Device>> read() override {
        auto devices = ask();
        if (!devices) nvml_.reset();
        if (!devices && !last_ && !places_.expected && !has_nvidia_device(places_.host_root))
            return without_hardware();
        tell_driver(devices);
        if (devices) {
            last_ = *devices;
        } else if (last_) {
            return without_driver();
        }
        return devices;
    }

    /// Those of a driver that works; what they were before stands while it does not.
    Result<DriverEdits> edits() override {
        if (!nvml_) return base::fail(base::ErrorKind::unavailable, "NVML is not open");
        look_for_files();
        DriverEdits edits = *edits_;
        auto toolkit =
            toolkit_.look(nvml_->driver_version(), last_.value_or(std::vector<Device>()));
        if (toolkit.edits) edits = in_place_of(std::move(edits), *std::move(toolkit.edits));
        edits.remarks.insert(edits.remarks.end(), toolkit.remarks.begin(), toolkit.remarks.end());
        tell_remarks(edits.remarks);
        return edits;
    }

    std::string name() const override { return "NVML"; }

    XidCounts xids() const override { return tracker_.xids(); }

    std::optional<std::vector<DeviceProcess>> processes() override {
        std::vector<DeviceProcess> found;
        for (const auto& [index, card] : known_) {
            NvmlHandle handle = nullptr;
            if (!nvml_ || nvml_->device(index, handle) != NvmlCode::success) continue;
            std::vector<NvmlHandle> handles;
            static_cast<void>(nvml_->mig_devices(handle, handles));
            if (handles.empty()) handles.push_back(handle);
            for (const NvmlHandle device : handles) {
                std::string uuid;
                if (nvml_->uuid(device, uuid) != NvmlCode::success) continue;
                add_processes(device, uuid, found);
            }
        }
        return found;
    }

private:
    void add_processes(NvmlHandle device, const std::string& uuid,
                       std::vector<DeviceProcess>& found) {
        std::vector<NvmlUse> uses;
        std::uint64_t& since = used_until_[uuid];
        const bool tells = nvml_->uses(device, since, uses) == NvmlCode::success;
        const std::uint64_t before = since;
        for (const NvmlUse& use : uses)
            since = std::max(since, use.time_us);
        for (const NvmlProcess& process : nvml_->processes(device)) {
            DeviceProcess made{.device_uuid = uuid, .pid = process.pid, .bytes = process.bytes};
            if (tells) made.time = time_of(uses, process.pid, before);
            found.push_back(std::move(made));
        }
    }

    /// A card and what was offered of it: itself, or its MIG instances.
    struct Known {
        std::string uuid;
        std::vector<Device> devices;
    };

    Result<std::vector<Device>> ask() {
        if (!nvml_) {
            if (auto opened = open(); !opened) return tl::unexpected(opened.error());
            watched_.clear();
        }
        const auto count = nvml_->device_count();
        if (!count) return tl::unexpected(count.error());
        take_events();
        std::vector<Device> devices;
        std::map<unsigned, NvmlCode> silent;
        for (unsigned index = 0; index < *count; ++index) {
            const NvmlCode code = add_card(index, devices);
            if (is_of_driver(code)) {
                return base::fail(base::ErrorKind::unavailable,
                                  fmt::format("NVML fails: code {}", static_cast<int>(code)));
            }
            if (code != NvmlCode::success) silent.emplace(index, code);
        }
        for (const auto& [index, code] : silent)
            add_silent(index, code, devices);
        std::ranges::stable_sort(devices, {}, [](const Device& d) { return d.place.index; });
        return devices;
    }

    /// Opens the first NVML that starts.
    Result<void> open() {
        std::vector<std::string> reasons;
        for (const DriverRoot& root : places_.roots) {
            auto opened = NvmlLibrary::open(nvml_paths(root));
            if (!opened) {
                reasons.push_back(std::move(opened.error().message));
                continue;
            }
            nvml_ = std::move(*opened);
            root_ = root;
            edits_.reset();
            return {};
        }
        return base::fail(base::ErrorKind::unavailable,
                          fmt::format("{}", fmt::join(reasons, "; ")));
    }

    std::vector<Device> without_hardware() {
        if (!std::exchange(told_hardware_, true))
            base::log_event(base::Level::info, "no_gpu", {{"hosts_root", places_.host_root}});
        return {};
    }

    void tell_driver(const Result<std::vector<Device>>& devices) {
        const bool works = devices.has_value();
        if (std::exchange(works_, works) == works) return;
        base::log_event(
            works ? base::Level::info : base::Level::error, "driver",
            {{"works", works}, {"reason", works ? std::string_view() : devices.error().message}});
    }

    std::vector<Device> without_driver() {
        std::map<std::string, std::vector<Fault>, std::less<>> faults;  // by card
        std::vector<Device> devices = *last_;
        for (Device& device : devices) {
            const std::string card(card_of(device));
            if (!faults.contains(card)) faults[card] = tracker_.look(card, {.driver_works = false});
            device.faults = faults[card];
        }
        return devices;
    }

    void look_for_files() {
        auto times = driver_folder_times(root_, places_.host_root);
        if (edits_ && times == edits_times_) return;
        edits_ = driver_edits(root_, nvml_->driver_version(), places_.host_root);
        edits_times_ = is_settled(times) ? std::move(times) : FileTimes();
    }

    void tell_remarks(const std::vector<std::string>& remarks) {
        if (std::exchange(remarks_, remarks) == remarks) return;
        for (const std::string& remark : remarks)
            base::log_event(base::Level::warn, "driver_files", {{"reason", remark}});
    }

    void take_events() {
        for (const NvmlEvent& event : nvml_->events()) {
            std::string uuid;
            if (nvml_->uuid(event.device, uuid) == NvmlCode::success)
                xids_[uuid].push_back(event.xid);
        }
    }

    /// The card, or its MIG instances in its place: both at once would give memory away twice. Adds
    /// nothing where the card does not answer, and gives what it says.
    NvmlCode add_card(unsigned index, std::vector<Device>& devices) {
        NvmlHandle handle = nullptr;
        std::string uuid;
        std::uint64_t memory = 0;
        bool mig_enabled = false;
        NvmlCode code = nvml_->device(index, handle);
        if (code == NvmlCode::success) code = nvml_->uuid(handle, uuid);
        if (code == NvmlCode::success) code = nvml_->total_memory(handle, memory);
        if (code == NvmlCode::success) code = nvml_->mig_mode(handle, mig_enabled);
        if (code != NvmlCode::success) return code;
        Device card = describe(handle, uuid, memory);
        card.place.index = index;
        card.faults = tracker_.look(uuid, probe_of(handle, uuid));
        std::vector<Device> found;
        if (!mig_enabled) {
            found.push_back(std::move(card));
        } else {
            code = add_instances(card, handle, found);
            if (code != NvmlCode::success) return code;
            tell_empty(card, found.empty());
        }
        devices.insert(devices.end(), found.begin(), found.end());
        // The driver counts anew when it is loaded: no card is known by two numbers.
        std::erase_if(known_, [&](const auto& known) { return known.second.uuid == uuid; });
        known_[index] = {.uuid = uuid, .devices = std::move(found)};
        return code;
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

    /// A card that was there before and does not answer now is named, and no other.
    void add_silent(unsigned index, NvmlCode code, std::vector<Device>& devices) {
        const auto known = known_.find(index);
        base::log_event(
            base::Level::warn, "gpu_silent",
            {{"index", std::int64_t{index}}, {"code", static_cast<std::int64_t>(code)}});
        if (known == known_.end()) return;
        const auto faults = tracker_.look(known->second.uuid, silent_probe(code));
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
            device.device_nodes = {{.path = fmt::format("/dev/nvidia{}", *minor)}};
        return device;
    }

    DeviceProbe probe_of(NvmlHandle handle, const std::string& uuid) {
        auto watched = watched_.find(uuid);
        if (watched == watched_.end()) watched = watched_.emplace(uuid, nvml_->watch(handle)).first;
        return {.reset_required = nvml_->has_pending_remap(handle),
                .monitored = watched->second,
                .xids = std::exchange(xids_[uuid], {})};
    }

    /// All of them, or what one says that does not answer: it is not taken for one that is gone.
    NvmlCode add_instances(const Device& card, NvmlHandle handle, std::vector<Device>& devices) {
        std::vector<NvmlHandle> instances;
        NvmlCode code = nvml_->mig_devices(handle, instances);
        for (const NvmlHandle mig : instances) {
            if (code == NvmlCode::success) code = add_instance(card, mig, devices);
        }
        return code;
    }

    NvmlCode add_instance(const Device& card, NvmlHandle mig, std::vector<Device>& devices) {
        std::string uuid;
        std::uint64_t memory = 0;
        std::pair<unsigned, unsigned> ids;
        NvmlCode code = nvml_->instance_ids(mig, ids);
        if (code == NvmlCode::success) code = nvml_->uuid(mig, uuid);
        if (code == NvmlCode::success) code = nvml_->total_memory(mig, memory);
        if (is_of_nothing(code)) return NvmlCode::success;  // removed just now
        if (code != NvmlCode::success) return code;
        Device device = card;
        device.uuid = uuid;
        device.type = DeviceType::mig;
        device.memory_bytes = static_cast<std::int64_t>(memory);
        const std::string name = nvml_->name(mig);
        if (!name.empty()) device.product_name = name;
        device.mig = MigPlace{card.uuid, ids.first, ids.second};
        for (DeviceNode& node : mig_nodes(card, ids.first, ids.second, places_.host_root))
            device.device_nodes.push_back(std::move(node));
        devices.push_back(std::move(device));
        return NvmlCode::success;
    }

    DriverPlaces places_;
    DriverRoot root_;  ///< of `nvml_`
    std::unique_ptr<NvmlLibrary> nvml_;
    FaultTracker tracker_;
    ToolkitFiles toolkit_;
    std::vector<std::string> remarks_;  ///< told last
    std::optional<DriverEdits> edits_;  ///< of `nvml_`, as its files show them
    FileTimes edits_times_;             ///< of the folders when they were made; empty: look again
    bool works_ = true;
    bool told_hardware_ = false;
    std::optional<std::vector<Device>> last_;  ///< of the last look at a driver that worked
    std::map<unsigned, Known> known_;          ///< by index: what a silent card was
    std::set<std::string> empty_;              ///< cards in MIG mode without instances
    std::map<std::string, bool> watched_;
    std::map<std::string, std::uint64_t> used_until_;  ///< by the driver's clock, in us
    std::map<std::string, std::vector<std::int64_t>> xids_;
};

}  // namespace

std::unique_ptr<DeviceSource> make_nvml_source(DriverPlaces places) {
    return std::make_unique<NvmlSource>(std::move(places));
}

std::unique_ptr<DeviceSource> make_nvml_source(DriverRoot root) {
    return make_nvml_source(DriverPlaces{.roots = {std::move(root)}, .expected = true});
}

}  // namespace drawbridge::agent
