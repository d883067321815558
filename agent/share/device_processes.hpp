#pragma once
// What the driver says of the processes on its GPUs, beside what the ledgers say (enforcement.md
// 4.6, 4.10).

#include "agent/share/ledger_copy.hpp"
#include "agent/share/process_table.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// GPU time of a process since the last look.
struct GpuTime {
    std::uint32_t permille = 0;  ///< of that time its kernels ran
    std::uint64_t ns = 0;

    [[nodiscard]] bool operator==(const GpuTime&) const = default;
};

/// Memory of a GPU that a process holds, as the driver tells the host.
struct DeviceProcess {
    std::string device_uuid = {};
    std::uint32_t pid = 0;
    std::uint64_t bytes = 0;
    std::optional<GpuTime> time = std::nullopt;  ///< nothing: the driver does not tell

    [[nodiscard]] bool operator==(const DeviceProcess&) const = default;
};

/// What was last written for a slot, in MiB, and for whom; the owner is not known after a start.
struct Overhead {
    std::uint32_t mib = 0;
    std::optional<SlotOwner> owner = std::nullopt;
    std::uint32_t taken_mib = 0;  ///< the figure that its library has taken into account
    bool measured = false;        ///< at this look; otherwise it is what it was before
};

/// The ledgers of a GPU's shares, one after the other, before and after the driver was asked, and
/// the answer for it.
struct OverheadView {
    const LedgerCopy& before;
    const LedgerCopy& after;
    std::span<const DeviceProcess> processes;
    const ProcessTable& table;
};

/// Whether no earlier slot is of the same process. One that has opened the driver in several
/// namespaces of the linker's has a slot for each, and one with several shares has one in each;
/// what the driver says of it as a whole is told of the first.
[[nodiscard]] bool is_first_of_owner(const LedgerCopy& copy, std::size_t slot);

/// What slot `slot` is to be charged beside its used word: what the driver counts for its process
/// and the ledger does not, in whole MiB. Stays what it was where that is not known: the driver
/// does not show the process, it allocated meanwhile, or it has managed memory, of which the driver
/// counts what lies on the GPU.
[[nodiscard]] Overhead overhead_of(const OverheadView& view, std::size_t slot,
                                   const Overhead& written);

/// What the driver says of a live slot's process on that device; null where it says nothing.
[[nodiscard]] const DeviceProcess* find_process(const LedgerSlot& slot,
                                                std::string_view device_uuid,
                                                std::span<const DeviceProcess> processes,
                                                const ProcessTable& table);

/// Names of the shares that a `/proc/<pid>/mountinfo` shows mounted: those of the process's
/// container.
[[nodiscard]] std::vector<std::string> shares_in_mounts(std::string_view mountinfo);

/// Whether a process of the table owns a live slot of a ledger.
[[nodiscard]] bool owns_slot(const LedgerCopy& copy, const Process& process);

}  // namespace drawbridge::agent
