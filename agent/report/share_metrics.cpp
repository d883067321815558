#include "agent/report/share_metrics.hpp"

#include "base/prometheus.hpp"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <string_view>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::append_metric_head;
using base::metric_label;

using Value = std::string (*)(const ShareStatus&);

struct ShareMetric {
    std::string_view name;
    std::string_view type;
    std::string_view help;
    Value value;
};

/// Seconds of a count of nanoseconds, exactly.
std::string seconds(std::uint64_t nanoseconds) {
    constexpr std::uint64_t second = 1'000'000'000;
    return fmt::format("{}.{:09}", nanoseconds / second, nanoseconds % second);
}

/// Cores of zero are no limit.
std::string core_ratio(std::int64_t cores) {
    if (cores <= 0 || cores >= 100) return "1";
    return fmt::format("0.{:02}", cores);
}

constexpr std::array share_metrics = {
    ShareMetric{"used_bytes", "gauge", "Memory that a share's processes have charged.",
                [](const ShareStatus& s) { return fmt::to_string(s.activity.use.used_bytes); }},
    ShareMetric{"limit_bytes", "gauge", "Memory that a share is held to.",
                [](const ShareStatus& s) { return fmt::to_string(s.in_force.memory_bytes); }},
    ShareMetric{"limit_hits_total", "counter", "Allocations that a share's limit refused.",
                [](const ShareStatus& s) { return fmt::to_string(s.activity.totals.denied); }},
    ShareMetric{
        "denied_bytes_total", "counter", "Memory that a share's limit refused.",
        [](const ShareStatus& s) { return fmt::to_string(s.activity.totals.denied_bytes); }},
    ShareMetric{"core_limit_ratio", "gauge", "Compute that a share is held to; 1: no limit.",
                [](const ShareStatus& s) { return core_ratio(s.in_force.cores); }},
    ShareMetric{"busy_seconds_total", "counter",
                "GPU time that a share's launches took, where its compute is limited.",
                [](const ShareStatus& s) { return seconds(s.activity.totals.busy_ns); }},
    ShareMetric{"gpu_seconds_total", "counter",
                "GPU time of a share's processes, as the driver counts it.",
                [](const ShareStatus& s) { return seconds(s.activity.gpu_ns); }},
    ShareMetric{"throttled_seconds_total", "counter",
                "Time that launches of a share's processes were held back.",
                [](const ShareStatus& s) { return seconds(s.activity.totals.throttle_ns); }},
    ShareMetric{"launches_total", "counter", "Launches of a share whose compute is limited.",
                [](const ShareStatus& s) { return fmt::to_string(s.activity.totals.launches); }},
    ShareMetric{"overhead_bytes", "gauge",
                "Memory of a share's contexts and modules, as the driver measures it.",
                [](const ShareStatus& s) { return fmt::to_string(s.activity.overhead_bytes); }},
    ShareMetric{"bypass_suspected", "gauge",
                "Processes of a share's containers that use the GPU without the preload library.",
                [](const ShareStatus& s) { return fmt::to_string(s.activity.suspect.strangers); }},
    ShareMetric{
        "overrun_bytes", "gauge",
        "Memory beyond a share's limit that the driver counts, for ten seconds and more.",
        [](const ShareStatus& s) { return fmt::to_string(s.activity.suspect.overrun_bytes); }},
    ShareMetric{"processes", "gauge", "Processes that use a share.",
                [](const ShareStatus& s) { return fmt::to_string(s.activity.use.processes); }}};

constexpr std::array<std::string_view, DRAWBRIDGE_GAUGES> kinds = {
    "linear", "managed", "array", "vmm", "pool", "graph", "imported"};

constexpr std::array<std::pair<std::string_view, std::uint64_t LedgerCounts::*>, 5> errors = {
    {{"unknown-free", &LedgerCounts::unknown_frees},
     {"unknown-handle", &LedgerCounts::unknown_handles},
     {"identity-miss", &LedgerCounts::identity_misses},
     {"out-of-memory-retry", &LedgerCounts::oom_retries},
     {"error", &LedgerCounts::errors}}};

std::string labels_of(const DeviceStatus& device, const ShareStatus& share) {
    return fmt::format(
        "{},{},{},{},{},{},{}", metric_label("gpu", device.offer.device.uuid),
        metric_label("namespace", share.claim.name_space), metric_label("pod", share.owner.pod),
        metric_label("container", share.owner.container), metric_label("claim", share.claim.name),
        metric_label("claim_uid", share.claim.uid),
        metric_label("share", fmt::to_string(share.index)));
}

using Visit = std::function<void(const ShareStatus&, const std::string& labels)>;

void for_each_share(const std::vector<DeviceStatus>& devices, const Visit& visit) {
    for (const DeviceStatus& device : devices) {
        for (const ShareStatus& share : device.shares)
            visit(share, labels_of(device, share));
    }
}

}  // namespace

void append_share_metrics(std::string& out, const std::vector<DeviceStatus>& devices) {
    for (const ShareMetric& metric : share_metrics) {
        const std::string name = fmt::format("drawbridge_agent_{}", metric.name);
        append_metric_head(out, name, metric.type, metric.help);
        for_each_share(devices, [&](const ShareStatus& share, const std::string& labels) {
            out += fmt::format("{}{{{}}} {}\n", name, labels, metric.value(share));
        });
    }
    constexpr std::string_view by_kind = "drawbridge_agent_used_by_kind_bytes";
    append_metric_head(out, by_kind, "gauge",
                       "Memory of a share's processes by kind; imported memory is not charged.");
    for_each_share(devices, [&](const ShareStatus& share, const std::string& labels) {
        for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
            base::append_series(out, by_kind,
                                fmt::format("{},{}", labels, metric_label("kind", kinds[kind])),
                                share.activity.use.kind_bytes[kind]);
        }
    });
    constexpr std::string_view failures = "drawbridge_agent_ledger_errors_total";
    append_metric_head(
        out, failures, "counter",
        "What the preload library met in a share's processes that it did not expect.");
    for_each_share(devices, [&](const ShareStatus& share, const std::string& labels) {
        for (const auto& [reason, count] : errors) {
            base::append_series(out, failures,
                                fmt::format("{},{}", labels, metric_label("reason", reason)),
                                static_cast<std::int64_t>(share.activity.totals.*count));
        }
    });
}

}  // namespace drawbridge::agent
