#include "agent/device/fault_tracker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace drawbridge::agent {
namespace {

constexpr std::array<std::int64_t, 6> application_xids = {13, 31, 43, 45, 68, 109};
constexpr std::int64_t fallen_off_the_bus = 79;

Fault lost() {
    return {.key = std::string(lost_key),
            .effect = TaintEffect::no_execute,
            .message = "the driver says that the GPU is lost"};
}

Fault reset_required() {
    return {.key = "reset-required",
            .effect = TaintEffect::no_schedule,
            .message = "the GPU must be reset before it is whole again"};
}

Fault unmonitored() {
    return {.key = "unmonitored",
            .effect = TaintEffect::none,
            .message = "errors of this GPU are not reported to the agent"};
}

Fault xid_fault(std::int64_t xid) {
    return {.key = "xid",
            .value = std::to_string(xid),
            .effect = TaintEffect::no_schedule,
            .message = fmt::format("the driver reported XID {}", xid)};
}

}  // namespace

/// Who is running may run on: a driver whose library was replaced serves those that have it open.
Fault driver_failed() {
    return {.key = std::string(driver_key),
            .effect = TaintEffect::no_schedule,
            .message = "the driver does not answer for this GPU"};
}

bool is_application_xid(std::int64_t xid) {
    return std::ranges::find(application_xids, xid) != application_xids.end();
}

std::vector<Fault> FaultTracker::look(const std::string& uuid, const DeviceProbe& probe) {
    State& state = states_[uuid];
    bool good = probe.answers && probe.driver_works && !probe.reset_required;
    if (!probe.answers) state.faults[std::string(lost_key)] = lost();
    if (probe.reset_required) state.faults["reset-required"] = reset_required();
    state.faults.erase(std::string(driver_key));
    if (!probe.driver_works) state.faults.emplace(driver_key, driver_failed());
    for (const std::int64_t xid : probe.xids) {
        ++xids_[{uuid, xid}];
        if (is_application_xid(xid)) continue;
        good = false;
        const Fault fault = xid == fallen_off_the_bus ? lost() : xid_fault(xid);
        state.faults[fault.key] = fault;
    }
    state.good = good ? state.good + 1 : 0;
    if (state.good >= proof) state.faults.clear();
    std::vector<Fault> faults;
    for (const auto& [key, fault] : state.faults)
        faults.push_back(fault);
    if (!probe.monitored) faults.push_back(unmonitored());
    return faults;
}

}  // namespace drawbridge::agent
