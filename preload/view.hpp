#pragma once
// What programs are shown of a share.

#include "preload/process.hpp"

namespace preload {

/// Total, used and free of a share and those chained to it, within what the device has.
ledger::Report report_share(int first, uint64_t device_total, uint64_t device_free);

/// Forgets which share NVML's handles belong to, in a forked child.
void forget_handles();

}  // namespace preload
