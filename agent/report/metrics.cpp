#include "agent/report/metrics.hpp"

#include "agent/report/share_metrics.hpp"
#include "base/version.hpp"

#include <fmt/format.h>

#include <string_view>

namespace drawbridge::agent {
namespace {

using base::append_metric_head;
using base::append_series;
using base::metric_label;
using base::value_of;

constexpr std::array<std::string_view, 7> kind_names = {
    "invalid-input", "not-found", "conflict", "forbidden", "unavailable", "timed-out", "internal"};
constexpr std::array<std::string_view, 2> results = {R"(result="done")", R"(result="refused")"};

void gauge(std::string& out, std::string_view name, std::string_view help, std::int64_t value) {
    append_metric_head(out, name, "gauge", help);
    append_series(out, name, "", value);
}

/// One series a device.
void device_gauge(std::string& out, const std::vector<DeviceStatus>& devices, std::string_view name,
                  std::string_view help, std::int64_t (*value)(const DeviceStatus&)) {
    append_metric_head(out, name, "gauge", help);
    for (const DeviceStatus& device : devices)
        append_series(out, name, metric_label("gpu", device.offer.device.uuid), value(device));
}

/// Each share once, whichever containers have it.
template <class Sum>
std::int64_t sum_of(const DeviceStatus& device, Sum sum) {
    std::int64_t all = 0;
    const ShareStatus* before = nullptr;
    for (const ShareStatus& share : device.shares) {
        const bool same = before != nullptr && before->claim == share.claim &&
                          before->owner.cdi_id == share.owner.cdi_id && !share.owner.cdi_id.empty();
        if (!same) all += sum(share);
        before = &share;
    }
    return all;
}

void render_devices(std::string& out, const std::vector<DeviceStatus>& devices) {
    device_gauge(out, devices, "drawbridge_agent_shares", "Shares of a GPU that are prepared.",
                 [](const DeviceStatus& device) {
                     return sum_of(device, [](const ShareStatus&) { return std::int64_t{1}; });
                 });
    device_gauge(out, devices, "drawbridge_agent_capacity_bytes", "Memory of a GPU as published.",
                 [](const DeviceStatus& device) { return device.offer.capacity.memory_bytes; });
    device_gauge(out, devices, "drawbridge_agent_committed_bytes",
                 "Memory of a GPU that is given away.", [](const DeviceStatus& device) {
                     return sum_of(device,
                                   [](const ShareStatus& s) { return s.allocated.memory_bytes; });
                 });
    device_gauge(out, devices, "drawbridge_agent_committed_cores",
                 "Compute of a GPU that is given away, in percent.",
                 [](const DeviceStatus& device) {
                     return sum_of(device, [](const ShareStatus& s) { return s.allocated.cores; });
                 });
    device_gauge(out, devices, "drawbridge_agent_health",
                 "1 for a healthy GPU, 0 for another, -1 where it is not known.",
                 [](const DeviceStatus& device) {
                     return std::int64_t{device.health == "Healthy"} -
                            std::int64_t{device.health == "Unknown"};
                 });
}

void render_xids(std::string& out, const XidCounts& xids) {
    constexpr std::string_view name = "drawbridge_agent_xid_total";
    append_metric_head(out, name, "counter", "Errors (XID) that the driver reported.");
    for (const auto& [key, count] : xids) {
        const auto& [uuid, xid] = key;
        append_series(out, name,
                      fmt::format("{},{}", metric_label("gpu", uuid),
                                  metric_label("xid", std::to_string(xid))),
                      static_cast<std::int64_t>(count));
    }
}

void render_notices(std::string& out, const MetricFacts& facts) {
    constexpr std::string_view name = "drawbridge_agent_notices_total";
    append_metric_head(out, name, "counter",
                       "Attempts to tell the API server of claim status, events and evictions.");
    const std::pair<std::string_view, const NoticeCounts&> kinds[] = {
        {"claim-status", facts.claim_status},
        {"event", facts.events},
        {"eviction", facts.evictions}};
    for (const auto& [kind, counts] : kinds) {
        const std::pair<std::string_view, std::uint64_t> ends[] = {{"delivered", counts.delivered},
                                                                   {"failed", counts.failed},
                                                                   {"dropped", counts.dropped}};
        for (const auto& [end, count] : ends) {
            append_series(
                out, name,
                fmt::format("{},{}", metric_label("kind", kind), metric_label("result", end)),
                static_cast<std::int64_t>(count));
        }
    }
}

}  // namespace

void AgentMetrics::count_prepare(const base::Result<void>& done, std::chrono::nanoseconds took) {
    prepares_[done ? 0 : 1].observe(took);
    if (!done) ++errors_[static_cast<std::size_t>(done.error().kind)];
}

void AgentMetrics::count_unprepare(const base::Result<void>& done, std::chrono::nanoseconds took) {
    unprepares_[done ? 0 : 1].observe(took);
}

void AgentMetrics::count_publish(bool success) {
    ++publishes_[success ? 1 : 0];
}

void AgentMetrics::render_calls(std::string& out) const {
    constexpr std::string_view prepare = "drawbridge_agent_prepare_seconds";
    append_metric_head(out, prepare, "histogram", "Time to prepare one claim, in seconds.");
    for (std::size_t i = 0; i < results.size(); ++i)
        prepares_[i].render(out, prepare, results[i]);
    constexpr std::string_view unprepare = "drawbridge_agent_unprepare_seconds";
    append_metric_head(out, unprepare, "histogram", "Time to end one claim, in seconds.");
    for (std::size_t i = 0; i < results.size(); ++i)
        unprepares_[i].render(out, unprepare, results[i]);
    constexpr std::string_view errors = "drawbridge_agent_prepare_errors_total";
    append_metric_head(out, errors, "counter", "Claims that were refused, by kind of reason.");
    for (std::size_t i = 0; i < kinds; ++i)
        append_series(out, errors, metric_label("reason", kind_names[i]), value_of(errors_[i]));
    constexpr std::string_view writes = "drawbridge_agent_slice_publish_total";
    append_metric_head(out, writes, "counter", "Writes of ResourceSlices.");
    append_series(out, writes, R"(result="success")", value_of(publishes_[1]));
    append_series(out, writes, R"(result="failure")", value_of(publishes_[0]));
}

std::string AgentMetrics::render(const MetricFacts& facts) const {
    std::string out;
    render_calls(out);
    render_devices(out, facts.devices);
    append_share_metrics(out, facts.devices);
    gauge(out, "drawbridge_agent_prepared_claims", "Claims that are prepared on this node.",
          facts.prepared_claims);
    gauge(out, "drawbridge_agent_unreadable_records", "Records of claims that cannot be read.",
          facts.unreadable_records);
    gauge(out, "drawbridge_agent_cdi_files", "CDI files of claims.", facts.cdi_files);
    gauge(out, "drawbridge_agent_slice_generation", "Generation of the published pool.",
          facts.slice_generation);
    gauge(out, "drawbridge_agent_published", "1 where the slices are as they should be.",
          facts.published ? 1 : 0);
    gauge(out, "drawbridge_agent_registered", "1 where the kubelet has registered this plugin.",
          facts.registered ? 1 : 0);
    constexpr std::string_view orphans = "drawbridge_agent_reconcile_orphans_total";
    append_metric_head(out, orphans, "counter", "Claims that were ended since nobody knew them.");
    append_series(out, orphans, "", static_cast<std::int64_t>(facts.orphans));
    render_notices(out, facts);
    render_xids(out, facts.xids);
    gauge(out, "drawbridge_agent_cdi", "1 where the runtime has CDI on, 0 off, -1 not known.",
          facts.cdi == CdiState::unknown ? -1 : std::int64_t{facts.cdi == CdiState::on});
    gauge(out, "drawbridge_agent_instances", "Agents that run on this node.", facts.instances);
    constexpr std::string_view build = "drawbridge_agent_build_info";
    append_metric_head(out, build, "gauge", "The version of this build; always 1.");
    append_series(out, build, metric_label("version", base::version), 1);
    append_hami_metrics(out, facts.hami, facts.node, facts.devices);
    return out;
}

}  // namespace drawbridge::agent
