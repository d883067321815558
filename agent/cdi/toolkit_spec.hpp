#pragma once
// The driver as NVIDIA's container toolkit describes it (`nvidia-ctk cdi generate`): with hooks
// that bring an image's linker cache up to date, and with what is there of graphics (node-agent.md
// 10). Pure.

#include "agent/cdi/cdi_spec.hpp"
#include "agent/cdi/enforcement.hpp"
#include "agent/device/device.hpp"
#include "base/result.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// What a CDI file says of NVIDIA's GPUs; nothing for one of another kind than `nvidia.com/gpu`,
/// and for what no runtime could read. What we have no field for is refused with its place.
[[nodiscard]] base::Result<std::optional<CdiSpec>> read_toolkit_spec(std::string_view text);

/// By UUID: the device nodes that are a device's own.
using OwnNodes = std::map<std::string, std::set<std::string>>;

/// The edits for the devices, which it has by their UUIDs or by the driver's count; MIG instances
/// by UUID alone. Links to mounted files are mounted too: the hook that makes links ends the
/// container where a claim that was prepared without a specification has mounted such a name.
[[nodiscard]] DriverEdits toolkit_edits(const CdiSpec& spec, const std::vector<Device>& devices);

/// Why containers cannot be given the toolkit's edits, whatever lies on the host: of another driver
/// than that version, without the hook for the linker's cache, or with what is another device's:
/// numbers of cards are other ones once a card has come or gone. Empty: they can.
[[nodiscard]] std::string misfit(const DriverEdits& toolkit, std::string_view version,
                                 const OwnNodes& own);

/// Every path of the host without which some container would not start, but for nodes that a
/// runtime makes by number, and for cards that are lost.
[[nodiscard]] std::vector<std::string> needed_files(const DriverEdits& toolkit,
                                                    const std::vector<Device>& devices);

/// The toolkit's edits in the place of our own, with the control nodes that only these have: they
/// came after the specification was written, or it has them for no single card.
[[nodiscard]] DriverEdits in_place_of(DriverEdits own, DriverEdits toolkit);

}  // namespace drawbridge::agent
