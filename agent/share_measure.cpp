#include "agent/share_measure.hpp"

#include "agent/ledger_file.hpp"
#include "base/atomic_file.hpp"
#include "preload/abi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

namespace drawbridge::agent {
namespace {

constexpr std::size_t max_mounts = 1U << 20U;
constexpr std::int64_t mib = 1 << 20;

std::optional<LedgerCopy> read_now(const ShareFolders& folders, const std::string& share) {
    const auto file = LedgerFile::open(folders.path(share, DRAWBRIDGE_LEDGER_FILE));
    if (!file) return std::nullopt;
    auto copy = file->read();
    if (!copy) return std::nullopt;
    return *std::move(copy);
}

std::string bytes_of(std::uint32_t value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

/// The overheads in a page of limits, in MiB.
std::vector<std::uint32_t> found_in(std::string_view page) {
    std::vector<std::uint32_t> found(DRAWBRIDGE_SLOTS);
    if (page.size() == DRAWBRIDGE_LIMITS_SIZE) {
        std::memcpy(found.data(), page.data() + offsetof(drawbridge_limits, overhead_mib),
                    sizeof(std::uint32_t) * found.size());
    }
    return found;
}

}  // namespace

std::string read_mounts(std::uint32_t pid) {
    return base::read_file(fmt::format("/proc/{}/mountinfo", pid), max_mounts).value_or("");
}

ShareMeasure::Shares ShareMeasure::begin() const {
    Shares shares;
    for (const std::string& share : parts_.folders.list().value_or(std::vector<std::string>())) {
        const auto limits = parts_.folders.limits(share);
        auto copy = read_now(parts_.folders, share);
        if (limits && copy)
            shares[share] = {.device = limits->device_uuid, .before = *std::move(copy)};
    }
    return shares;
}

void ShareMeasure::write_overheads(const Shares& shares,
                                   const std::vector<DeviceProcess>& processes,
                                   const ProcessTable& table) {
    std::erase_if(written_, [&](const auto& entry) { return !shares.contains(entry.first); });
    for (const auto& [share, measured] : shares) {
        const std::string limits = parts_.folders.path(share, DRAWBRIDGE_LIMITS_FILE);
        // What lies there counts, whoever wrote it: another agent, or who made the file anew.
        const std::vector<std::uint32_t> lying =
            found_in(parts_.files.read(limits, DRAWBRIDGE_LIMITS_SIZE).value_or(""));
        std::vector<Overhead>& known = written_[share];
        known.resize(DRAWBRIDGE_SLOTS);
        std::vector<DeviceProcess> here = processes;
        std::erase_if(here, [&device = measured.device](const DeviceProcess& one) {
            return !one.device_uuid.ends_with(device);
        });
        const OverheadView view{measured.before, measured.after, here, table};
        std::int64_t sum = 0;
        for (std::size_t slot = 0; slot < measured.after.size(); ++slot) {
            Overhead& written = known[slot];
            written.mib = lying[slot];
            const Overhead now = overhead_of(view, slot, written);
            sum += now.mib * mib;
            const std::size_t offset =
                offsetof(drawbridge_limits, overhead_mib) + slot * sizeof(std::uint32_t);
            if (now.mib != written.mib && !parts_.files.patch(limits, offset, bytes_of(now.mib)))
                continue;
            written = now;
        }
        parts_.book.set_overhead(share, sum);
    }
}

std::map<std::string, std::int64_t> ShareMeasure::strangers(
    const Shares& shares, const std::vector<DeviceProcess>& processes, const ProcessTable& table) {
    std::set<std::pair<std::string, std::uint32_t>> seen;
    std::map<std::string, std::int64_t> found;
    for (const DeviceProcess& one : processes) {
        const auto process = std::ranges::find(table.processes, one.pid, &Process::pid);
        if (process == table.processes.end() || process->has_ended) continue;
        std::vector<std::string> mounted = shares_in_mounts(parts_.mounts(one.pid));
        std::erase_if(mounted, [&](const std::string& share) {
            const auto known = shares.find(share);
            return known == shares.end() || !one.device_uuid.ends_with(known->second.device);
        });
        const bool is_known = std::ranges::any_of(mounted, [&](const std::string& share) {
            return owns_slot(shares.at(share).after, *process);
        });
        if (is_known || mounted.empty()) continue;
        // The first that fits, as the library charges.
        const std::pair suspect(mounted.front(), one.pid);
        seen.insert(suspect);
        if (suspected_.contains(suspect)) ++found[suspect.first];
    }
    suspected_ = std::move(seen);
    return found;
}

std::map<std::string, std::int64_t> ShareMeasure::measure(
    const std::function<std::vector<DeviceProcess>()>& ask) {
    Shares shares = begin();
    if (shares.empty()) return {};
    const auto processes = ask();
    for (auto& [share, measured] : shares)
        measured.after = read_now(parts_.folders, share).value_or(LedgerCopy());
    if (processes.empty() && written_.empty()) return {};
    const ProcessTable table = parts_.processes();
    write_overheads(shares, processes, table);
    auto found = strangers(shares, processes, table);
    parts_.book.set_strangers(found);
    return found;
}

}  // namespace drawbridge::agent
