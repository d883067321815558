#pragma once
// From what a GPU reports to the faults it is published with: rises at once, falls only after the
// GPU has proved itself for a while (node-agent.md 12); that of a driver falls when it works again.
// Pure.

#include "agent/device/device.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// One look at one GPU.
struct DeviceProbe {
    bool answers = true;                  ///< false: the driver calls it lost
    bool driver_works = true;             ///< false: the driver tells nothing of it
    bool reset_required = false;          ///< rows wait for a remap, or the driver asks for a reset
    bool monitored = true;                ///< errors are reported to us
    std::vector<std::int64_t> xids = {};  ///< since the last look
};

class FaultTracker {
public:
    /// Looks in a row without trouble after which a fault is taken back.
    static constexpr int proof = 12;

    /// Takes a look at the device with that UUID into account; its faults from then on, by key.
    [[nodiscard]] std::vector<Fault> look(const std::string& uuid, const DeviceProbe& probe);
    /// XIDs seen, by UUID and number, those of applications as well.
    [[nodiscard]] const std::map<std::pair<std::string, std::int64_t>, std::uint64_t>& xids()
        const {
        return xids_;
    }

private:
    struct State {
        std::map<std::string, Fault> faults;
        int good = 0;
    };
    std::map<std::string, State> states_;
    std::map<std::pair<std::string, std::int64_t>, std::uint64_t> xids_;
};

/// That the driver tells nothing of a GPU.
[[nodiscard]] Fault driver_failed();

/// Whether an XID tells of a program and not of the GPU: 13, 31, 43, 45, 68, 109.
[[nodiscard]] bool is_application_xid(std::int64_t xid);

}  // namespace drawbridge::agent
