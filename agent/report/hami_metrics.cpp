#include "agent/report/hami_metrics.hpp"

#include "base/prometheus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace drawbridge::agent {
namespace {

/// Labels by HAMi's current names. What is not in it is empty.
using Labels = std::map<std::string_view, std::string, std::less<>>;

/// What a GPU's shares take of it.
struct Taken {
    Amounts amounts = {};
    std::int64_t containers = 0;
};

/// A GPU, or one container's share of it.
struct Subject {
    Labels labels = {};
    const DeviceStatus* device = nullptr;
    const ShareStatus* share = nullptr;
    Taken taken = {};
};

using Value = std::string (*)(const Subject&);

struct HamiMetric {
    std::string_view name;
    std::string_view legacy;  ///< its older name; empty: none
    std::string_view help;
    std::string_view labels;         ///< separated by spaces, in HAMi's order
    std::string_view legacy_labels;  ///< names of the same labels under the legacy name
    Value value;
};

std::int64_t buffers_of(const ShareStatus& share) {
    const auto& kinds = share.activity.use.kind_bytes;
    const std::int64_t all = std::accumulate(kinds.begin(), kinds.end(), std::int64_t{0});
    return all - kinds[DRAWBRIDGE_GAUGE_IMPORTED];
}

std::string ratio(std::int64_t part, std::int64_t whole) {
    if (whole <= 0) return "0";
    return fmt::format("{:.6g}", static_cast<double>(part) / static_cast<double>(whole));
}

constexpr std::string_view device_labels = "node device_uuid device_index device_type";
constexpr std::string_view old_device_labels = "nodeid deviceuuid deviceidx devicetype";

constexpr std::array device_metrics = {
    HamiMetric{
        "hami_gpu_memory_limit_bytes", "GPUDeviceMemoryLimit",
        "Device memory limit for a certain GPU", device_labels, old_device_labels,
        [](const Subject& s) { return fmt::to_string(s.device->offer.capacity.memory_bytes); }},
    HamiMetric{"hami_gpu_core_limit_ratio", "GPUDeviceCoreLimit",
               "Device core limit for a certain GPU", device_labels, old_device_labels,
               [](const Subject& s) { return fmt::to_string(s.device->offer.capacity.cores); }},
    HamiMetric{"hami_gpu_memory_allocated_bytes", "GPUDeviceMemoryAllocated",
               "Device memory allocated for a certain GPU",
               "node device_uuid device_index device_cores device_type",
               "nodeid deviceuuid deviceidx devicecores devicetype",
               [](const Subject& s) { return fmt::to_string(s.taken.amounts.memory_bytes); }},
    HamiMetric{"hami_gpu_core_allocated_ratio", "GPUDeviceCoreAllocated",
               "Device core allocated for a certain GPU", device_labels, old_device_labels,
               [](const Subject& s) { return fmt::to_string(s.taken.amounts.cores); }},
    HamiMetric{"hami_gpu_shared_count", "GPUDeviceSharedNum",
               "Number of containers sharing this GPU", device_labels, old_device_labels,
               [](const Subject& s) { return fmt::to_string(s.taken.containers); }},
    HamiMetric{"hami_node_gpu_overview", "nodeGPUOverview", "GPU overview on a certain node",
               "node device_uuid device_index device_cores device_memory_limit device_type",
               "nodeid deviceuuid deviceidx devicecores devicememorylimit devicetype",
               [](const Subject& s) { return fmt::to_string(s.taken.amounts.memory_bytes); }},
    HamiMetric{"hami_node_gpu_memory_allocated_ratio", "nodeGPUMemoryPercentage",
               "GPU Memory Allocated Percentage on a certain GPU",
               "node device_uuid device_index device_type", "nodeid deviceuuid deviceidx -",
               [](const Subject& s) {
                   return ratio(s.taken.amounts.memory_bytes,
                                s.device->offer.capacity.memory_bytes);
               }}};

constexpr std::string_view allocated_labels = "namespace node pod container_index device_uuid";
constexpr std::string_view old_allocated_labels =
    "podnamespace nodename podname containeridx deviceuuid";
constexpr std::string_view container_labels = "namespace pod container vdevice_index device_uuid";
constexpr std::string_view old_container_labels =
    "podnamespace podname ctrname vdeviceid deviceuuid";

constexpr std::array share_metrics = {
    HamiMetric{"hami_vgpu_memory_allocated_bytes", "vGPUMemoryAllocated",
               "vGPU memory allocated from a container", allocated_labels, old_allocated_labels,
               [](const Subject& s) { return fmt::to_string(s.share->allocated.memory_bytes); }},
    HamiMetric{"hami_vgpu_core_allocated_ratio", "vGPUCoreAllocated",
               "vGPU core allocated from a container", allocated_labels, old_allocated_labels,
               [](const Subject& s) { return fmt::to_string(s.share->allocated.cores); }},
    HamiMetric{"hami_vgpu_memory_used_bytes", "vGPU_device_memory_usage_in_bytes",
               "vGPU device memory usage in bytes", container_labels, old_container_labels,
               [](const Subject& s) { return fmt::to_string(s.share->activity.use.used_bytes); }},
    HamiMetric{"hami_vgpu_memory_limit_bytes", "vGPU_device_memory_limit_in_bytes",
               "vGPU device memory limit in bytes", container_labels, old_container_labels,
               [](const Subject& s) { return fmt::to_string(s.share->in_force.memory_bytes); }},
    HamiMetric{"hami_container_device_memory_bytes", "", "Container device memory usage in bytes",
               container_labels, "",
               [](const Subject& s) { return fmt::to_string(s.share->activity.use.used_bytes); }},
    HamiMetric{"hami_container_device_utilization_ratio", "Device_utilization_desc_of_container",
               "Container device SM utilization ratio", container_labels, old_container_labels,
               [](const Subject& s) {
                   const ShareActivity& activity = s.share->activity;
                   return fmt::to_string(
                       (activity.gpu ? activity.gpu->permille : activity.rates.busy_permille) / 10);
               }},
    HamiMetric{"hami_vgpu_memory_context_bytes", "",
               "Container device memory context size in bytes", container_labels, "",
               [](const Subject& s) {
                   const std::int64_t rest =
                       s.share->activity.use.used_bytes - buffers_of(*s.share);
                   return fmt::to_string(std::max<std::int64_t>(rest, 0));
               }},
    HamiMetric{"hami_vgpu_memory_buffer_bytes", "", "Container device memory buffer size in bytes",
               container_labels, "",
               [](const Subject& s) { return fmt::to_string(buffers_of(*s.share)); }}};

/// Cuts the next word off.
std::string_view take_word(std::string_view& words) {
    const std::size_t end = std::min(words.find(' '), words.size());
    const std::string_view word = words.substr(0, end);
    words.remove_prefix(std::min(end + 1, words.size()));
    return word;
}

/// `names` are what the labels are called here; `-` leaves one out.
std::string labels_text(const Labels& labels, std::string_view which, std::string_view names) {
    std::string text = base::metric_label("zone", "vGPU");
    while (!which.empty()) {
        const auto found = labels.find(take_word(which));
        const std::string_view name = take_word(names);
        if (name == "-") continue;
        text += ',' + base::metric_label(name, found == labels.end() ? "" : found->second);
    }
    return text;
}

template <std::size_t Size>
void append_all(std::string& out, const std::array<HamiMetric, Size>& metrics, HamiMetrics which,
                const std::vector<Subject>& subjects) {
    const auto append = [&](const HamiMetric& metric, std::string_view name,
                            std::string_view labels) {
        base::append_metric_head(out, name, "gauge", metric.help);
        for (const Subject& subject : subjects) {
            out += fmt::format("{}{{{}}} {}\n", name,
                               labels_text(subject.labels, metric.labels, labels),
                               metric.value(subject));
        }
    };
    for (const HamiMetric& metric : metrics) {
        append(metric, metric.name, metric.labels);
        if (which == HamiMetrics::all && !metric.legacy.empty())
            append(metric, metric.legacy, metric.legacy_labels);
    }
}

/// A share that several containers have is taken once, and shared by each of them.
Taken taken_of(const DeviceStatus& device) {
    Taken taken;
    std::set<std::pair<std::string, std::size_t>> seen;
    for (const ShareStatus& share : device.shares) {
        ++taken.containers;
        if (seen.emplace(share.claim.uid, share.index).second) taken.amounts += share.allocated;
    }
    return taken;
}

Labels labels_of(std::string_view node, const Offer& offer) {
    return {{"node", std::string(node)},
            {"device_uuid", offer.device.uuid},
            {"device_index", fmt::to_string(offer.device.place.index)},
            {"device_type", "NVIDIA-" + offer.device.product_name},
            {"device_cores", fmt::to_string(offer.capacity.cores)},
            {"device_memory_limit", fmt::to_string(offer.capacity.memory_bytes >> 20)}};
}

}  // namespace

void append_hami_metrics(std::string& out, HamiMetrics which, std::string_view node,
                         const std::vector<DeviceStatus>& devices) {
    if (which == HamiMetrics::off) return;
    std::vector<Subject> gpus;
    std::vector<Subject> containers;
    std::map<std::tuple<std::string, std::string, std::string>, int> places;
    for (const DeviceStatus& device : devices) {
        const Labels labels = labels_of(node, device.offer);
        gpus.push_back({.labels = labels, .device = &device, .taken = taken_of(device)});
        for (const ShareStatus& share : device.shares) {
            const ShareOwner& owner = share.owner;
            if (owner.pod.empty()) continue;
            Subject subject{.labels = labels, .device = &device, .share = &share};
            subject.labels["namespace"] = share.claim.name_space;
            subject.labels["pod"] = owner.pod;
            subject.labels["container"] = owner.container;
            // HAMi 2.10 says 0 for every container of a pod, too.
            subject.labels.emplace("container_index", "0");
            int& place = places[{share.claim.name_space, owner.pod, owner.container}];
            subject.labels["vdevice_index"] = fmt::to_string(place++);
            containers.push_back(std::move(subject));
        }
    }
    append_all(out, device_metrics, which, gpus);
    append_all(out, share_metrics, which, containers);
}

}  // namespace drawbridge::agent
