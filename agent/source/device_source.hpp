#pragma once
// Where the devices of a node are learnt from.

#include "agent/cdi/driver_files.hpp"
#include "agent/cdi/enforcement.hpp"
#include "agent/device/device.hpp"
#include "agent/share/device_processes.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::agent {

/// How often each XID was seen, by UUID and number.
using XidCounts = std::map<std::pair<std::string, std::int64_t>, std::uint64_t>;

/// All calls from one thread at a time; they may block.
class DeviceSource {
public:
    virtual ~DeviceSource() = default;
    /// The devices as they are now. An error means that nothing is known of them.
    [[nodiscard]] virtual base::Result<std::vector<Device>> read() = 0;
    /// How the driver reaches a container.
    [[nodiscard]] virtual base::Result<DriverEdits> edits() = 0;
    /// Where the devices come from, for the log.
    [[nodiscard]] virtual std::string name() const = 0;
    /// Errors that the driver reported since the start, those of applications among them.
    [[nodiscard]] virtual XidCounts xids() const { return {}; }
    /// The processes on all devices, as far as the driver shows them to the host; nothing where it
    /// never does.
    [[nodiscard]] virtual std::optional<std::vector<DeviceProcess>> processes() {
        return std::nullopt;
    }
};

/// The devices that a file lists (device_list.hpp); it is read again whenever it is asked.
[[nodiscard]] std::unique_ptr<DeviceSource> make_file_source(std::string path);

/// The GPUs that NVML shows; it is opened when it is asked, and again after it failed.
/// A node without hardware of NVIDIA has no devices, and that is no fault; where there is some, or
/// places expect it, what is missing is NVML.
[[nodiscard]] std::unique_ptr<DeviceSource> make_nvml_source(DriverPlaces places);
/// As above, with the driver in one root, which is expected there.
[[nodiscard]] std::unique_ptr<DeviceSource> make_nvml_source(DriverRoot root);

}  // namespace drawbridge::agent
