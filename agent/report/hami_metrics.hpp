#pragma once
// HAMi's own metrics of a node, so that dashboards and alerts made for HAMi go on
// (legacy-requests.md 6).

#include "agent/report/node_status.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// current: the names of HAMi 2.10; all: those too that it keeps behind `--legacy-metrics`.
enum class HamiMetrics { off, current, all };

/// Appends what HAMi's scheduler and monitor tell of a node's GPUs and shares, as far as it is
/// known here. Shares whose container the kubelet does not name are left out.
void append_hami_metrics(std::string& out, HamiMetrics which, std::string_view node,
                         const std::vector<DeviceStatus>& devices);

}  // namespace drawbridge::agent
