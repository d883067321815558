#pragma once
// The metrics of each share (enforcement.md 4.11).

#include "agent/report/node_status.hpp"

#include <string>
#include <vector>

namespace drawbridge::agent {

/// Appends one series for each container that has a share, times the kinds of memory and of errors:
/// their number is bounded by the slots of the GPUs. Labels come from the API server and the
/// kubelet, never from what a tenant writes.
void append_share_metrics(std::string& out, const std::vector<DeviceStatus>& devices);

}  // namespace drawbridge::agent
