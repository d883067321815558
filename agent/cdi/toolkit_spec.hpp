#pragma once
// The driver as NVIDIA's container toolkit describes it (`nvidia-ctk cdi generate`): with hooks
// that bring an image's linker cache up to date, and with what is there of graphics (node-agent.md
// 10). Pure.

#include "agent/cdi/cdi_spec.hpp"
#include "agent/cdi/enforcement.hpp"
#include "agent/device/device.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// What a CDI file says of NVIDIA's GPUs; nothing for one of another kind than `nvidia.com/gpu`,
/// and for what no runtime could read. What we have no field for is refused with its place.
[[nodiscard]] base::Result<std::optional<CdiSpec>> read_toolkit_spec(std::string_view text);

/// Whether containers would get the driver of that version, and not of one that was there before.
[[nodiscard]] bool brings_driver(const CdiSpec& spec, std::string_view version);

/// Every path of the host without which no container starts that gets the common edits.
[[nodiscard]] std::vector<std::string> needed_files(const CdiSpec& spec);

/// The edits for the devices, which it has by their UUIDs or by the driver's count; MIG instances
/// by UUID alone.
[[nodiscard]] DriverEdits toolkit_edits(const CdiSpec& spec, const std::vector<Device>& devices);

}  // namespace drawbridge::agent
