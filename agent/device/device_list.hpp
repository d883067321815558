#pragma once
// Devices as a file describes them, for machines without GPUs (`--devices FILE`).

#include "agent/device/device.hpp"
#include "base/json.hpp"
#include "base/result.hpp"

#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Reads a `DeviceList` (drawbridge.dev/v1) that is JSON already: `devices`, each with `uuid`,
/// `memory` and what else docs/agent.md names. Refused with the place: unknown fields, a UUID that
/// comes twice, more than 512 devices.
[[nodiscard]] base::Result<std::vector<Device>> read_device_list(base::JsonView document);

/// The same from the text of a file, YAML or JSON.
[[nodiscard]] base::Result<std::vector<Device>> parse_device_list(std::string_view text);

}  // namespace drawbridge::agent
