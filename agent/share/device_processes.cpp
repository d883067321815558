#include "agent/share/device_processes.hpp"

#include "preload/abi.h"

#include <algorithm>

namespace drawbridge::agent {
namespace {

constexpr std::uint64_t mib = 1U << 20U;
constexpr std::uint64_t most_mib = UINT32_MAX / 2;

std::optional<std::uint64_t> measured(const OverheadView& view, const SlotOwner& owner) {
    const Process* process = find_owner(owner, view.table);
    if (process == nullptr) return std::nullopt;
    const auto found = std::ranges::find(view.processes, process->pid, &DeviceProcess::pid);
    if (found == view.processes.end()) return std::nullopt;
    return found->bytes;
}

bool stood_still(const OverheadView& view, std::size_t slot) {
    if (slot >= view.before.size()) return false;
    const LedgerSlot& before = view.before[slot];
    const LedgerSlot& after = view.after[slot];
    return before.owner() == after.owner() && before.used == after.used &&
           before.content.in_flight == 0 && after.content.in_flight == 0 &&
           after.content.gauge[DRAWBRIDGE_GAUGE_MANAGED] == 0;
}

/// What the later slots of a slot's process hold, with what they assume, since they keep that;
/// nothing where one of them has moved.
std::optional<std::uint64_t> held_besides(const OverheadView& view, std::size_t slot) {
    std::uint64_t bytes = 0;
    for (std::size_t later = slot + 1; later < view.after.size(); ++later) {
        const LedgerSlot& other = view.after[later];
        if (!other.is_live() || !(other.owner() == view.after[slot].owner())) continue;
        if (!stood_still(view, later)) return std::nullopt;
        bytes += other.used;
    }
    return bytes;
}

}  // namespace

bool is_first_of_owner(const LedgerCopy& copy, std::size_t slot) {
    const SlotOwner owner = copy[slot].owner();
    return std::none_of(
        copy.begin(), copy.begin() + static_cast<std::ptrdiff_t>(slot),
        [&](const LedgerSlot& earlier) { return earlier.is_live() && earlier.owner() == owner; });
}

Overhead overhead_of(const OverheadView& view, std::size_t slot, const Overhead& written) {
    const LedgerSlot& now = view.after[slot];
    if (!now.is_live()) return {};
    const SlotOwner owner = now.owner();
    if (!is_first_of_owner(view.after, slot)) return {0, owner, 0, false};
    const bool is_known = written.owner && *written.owner == owner;
    const bool is_new = written.owner && !is_known;
    // With nothing assumed any more, it has seen what was written; a new one has found that.
    const bool has_seen = !is_known || now.content.provisional == 0;
    const std::uint32_t taken = has_seen ? written.mib : written.taken_mib;
    const Overhead kept{is_new ? 0 : written.mib, owner, taken, false};
    const auto bytes = measured(view, owner);
    const auto besides = held_besides(view, slot);
    if (!bytes || !besides || !stood_still(view, slot)) return kept;
    const std::uint64_t assumed = std::min(now.content.provisional, now.used);
    const std::uint64_t counted = now.used - assumed + *besides;
    const std::uint64_t beyond = *bytes > counted ? *bytes - counted : 0;
    auto whole = static_cast<std::uint32_t>(std::min((beyond + mib - 1) / mib, most_mib));
    // The library drops what it assumed when it sees another figure than before.
    if (assumed != 0 && whole == taken && whole != 0) ++whole;
    return {whole, owner, taken, true};
}

const DeviceProcess* find_process(const LedgerSlot& slot, std::string_view device_uuid,
                                  std::span<const DeviceProcess> processes,
                                  const ProcessTable& table) {
    const Process* owner = slot.is_live() ? find_owner(slot.owner(), table) : nullptr;
    if (owner == nullptr) return nullptr;
    const auto found = std::ranges::find_if(processes, [&](const DeviceProcess& one) {
        return one.pid == owner->pid && one.device_uuid.ends_with(device_uuid);
    });
    return found == processes.end() ? nullptr : &*found;
}

std::vector<std::string> shares_in_mounts(std::string_view mountinfo) {
    constexpr std::string_view folder = DRAWBRIDGE_ROOT "/" DRAWBRIDGE_SHARES_FOLDER "/";
    std::vector<std::string> found;
    while (!mountinfo.empty()) {
        std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
        mountinfo.remove_prefix(std::min(line.size() + 1, mountinfo.size()));
        // The fifth field is the mount point; spaces in it are written as octal numbers.
        for (int field = 1; field < 5; ++field) {
            const std::size_t space = line.find(' ');
            line.remove_prefix(space == std::string_view::npos ? line.size() : space + 1);
        }
        std::string_view point = line.substr(0, line.find(' '));
        if (!point.starts_with(folder)) continue;
        point.remove_prefix(folder.size());
        std::string name(point.substr(0, point.find('/')));
        if (!name.empty() && std::ranges::find(found, name) == found.end())
            found.push_back(std::move(name));
    }
    return found;
}

bool owns_slot(const LedgerCopy& copy, const Process& process) {
    const ProcessTable alone{.processes = {process}};
    return std::ranges::any_of(copy, [&](const LedgerSlot& slot) {
        return slot.is_live() && find_owner(slot.owner(), alone) != nullptr;
    });
}

}  // namespace drawbridge::agent
