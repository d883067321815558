#pragma once
// The content of a share's two files, in the layout of preload/abi.h.

#include "agent/claim/claim_record.hpp"
#include "agent/device/device.hpp"
#include "base/result.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace drawbridge::agent {

/// What goes into a share's `limits`.
struct ShareLimits {
    std::string claim_uid = {};
    std::size_t share_index = 0;
    std::string boot_id = {};  ///< as /proc/sys/kernel/random/boot_id shows it
    std::string device_uuid = {};
    std::string pci_bus_id = {};
    Amounts amounts = {};
    std::int64_t physical_bytes = 0;  ///< of the device
    ShareConfig config = {};

    [[nodiscard]] bool operator==(const ShareLimits&) const = default;
};

/// The limits of a share; `device` is where the share lies.
[[nodiscard]] ShareLimits limits_of(std::string_view claim_uid, std::size_t index,
                                    std::string_view boot_id, const Share& share,
                                    const Device& device);

/// The whole file, of generation `generation`, which is even.
[[nodiscard]] std::string limits_page(const ShareLimits& limits, std::uint64_t generation);

/// Where the fields lie that readers take only while `generation` is even and stays as it was.
struct GuardedFields {
    std::size_t offset;
    std::size_t size;
};
[[nodiscard]] GuardedFields guarded_fields();

/// Copies what the agent measures, and no settings or claim say, from one page into another.
void keep_measured(std::string& page, std::string_view from);

/// Where `generation` lies, and its bytes.
[[nodiscard]] std::size_t generation_offset();
[[nodiscard]] std::string generation_bytes(std::uint64_t generation);
/// The generation of a page of the right size, whatever else is wrong with it.
[[nodiscard]] std::uint64_t generation_of(std::string_view page);

/// The whole file of a share that no process has used yet.
[[nodiscard]] const std::string& fresh_ledger();

/// What is read back from a `limits` file.
struct ReadLimits {
    std::uint64_t generation = 0;
    std::int64_t memory_bytes = 0;
    std::int64_t core_permille = 0;
    std::uint32_t priority = 0;  ///< 0 is high, 1 what a share has that asks for none
    std::uint32_t busy_scale = 0;
    std::uint64_t paused_until_ns = 0;
    std::string boot_id = {};      ///< as above
    std::string device_uuid = {};  ///< without `GPU-` or `MIG-`

    [[nodiscard]] bool limits_compute() const;
};

/// Reads a `limits` file. `invalid_input`: damaged, another magic or size; `unavailable`: another
/// major version.
[[nodiscard]] base::Result<ReadLimits> read_limits(std::string_view page);

/// What a share's containers are held to by these limits, in the units of what was allocated.
[[nodiscard]] Amounts in_force(const Amounts& allocated, const ReadLimits& limits);

/// The sixteen bytes of a UUID text; a prefix as in `GPU-` or `MIG-` is passed by. A text that
/// holds no UUID gives the first sixteen bytes of its SHA-256: a made-up device of `--devices`.
[[nodiscard]] std::array<std::uint8_t, 16> uuid_bytes(std::string_view text);

}  // namespace drawbridge::agent
