#include "agent/share/share_measure.hpp"

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

std::optional<LedgerCopy> read_now(ShareBook& book, const std::string& share) {
    const auto file = book.ledgers().open(share);
    if (!file) return std::nullopt;
    auto copy = (*file)->read();
    if (!copy) return std::nullopt;
    return *std::move(copy);
}

template <class Word>
std::string bytes_of(Word value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

template <class Word>
Word word_at(std::string_view page, std::size_t offset) {
    Word value = 0;
    std::memcpy(&value, page.data() + offset, sizeof value);
    return value;
}

std::size_t overhead_offset(std::size_t slot) {
    return offsetof(drawbridge_limits, overhead_mib) + slot * sizeof(std::uint32_t);
}

/// The ledgers of all shares of a GPU one after the other: a process may have slots in several, and
/// is measured once.
struct DeviceLedgers {
    void add(const std::string& share, LedgerCopy was, const LedgerCopy& is) {
        first_slot[share] = after.size();
        was.resize(is.size());
        before.insert(before.end(), was.begin(), was.end());
        after.insert(after.end(), is.begin(), is.end());
    }

    LedgerCopy before = {};
    LedgerCopy after = {};
    std::map<std::string, std::size_t> first_slot = {};
};

/// Of a measured figure, what the slot's word has not got as an assumption.
std::int64_t uncounted(const Overhead& overhead, const LedgerSlot& slot) {
    const std::uint64_t assumed = std::min(slot.content.provisional, slot.used);
    const std::uint64_t measured = overhead.mib * std::uint64_t{mib};
    return measured > assumed ? static_cast<std::int64_t>(measured - assumed) : 0;
}

}  // namespace

std::string read_mounts(std::uint32_t pid) {
    return base::read_file(fmt::format("/proc/{}/mountinfo", pid), max_mounts).value_or("");
}

bool ShareMeasure::add(Shares& shares, const std::string& share) const {
    if (shares.contains(share)) return true;
    auto page = parts_.files.read(parts_.folders.path(share, DRAWBRIDGE_LIMITS_FILE),
                                  DRAWBRIDGE_LIMITS_SIZE);
    const auto limits = page ? read_limits(*page) : tl::unexpected(page.error());
    auto copy = read_now(parts_.book, share);
    if (!limits || !copy) return false;
    shares[share] = {.device = limits->device_uuid,
                     .memory_bytes = limits->memory_bytes,
                     .page = *std::move(page),
                     .before = *copy,
                     .after = *std::move(copy)};
    return true;
}

/// A share that is being removed has no file, and needs no word.
void ShareMeasure::write(const std::string& share, std::size_t offset, std::string_view bytes) {
    static_cast<void>(
        parts_.files.patch(parts_.folders.path(share, DRAWBRIDGE_LIMITS_FILE), offset, bytes));
}

/// What lies there counts, whoever wrote it: another agent, or who made the file anew.
void ShareMeasure::write_overhead(const std::string& share, std::size_t slot, const Overhead& now,
                                  const Overhead& written) {
    if (now.mib != written.mib) write(share, overhead_offset(slot), bytes_of(now.mib));
}

void ShareMeasure::write_overheads(const Shares& shares,
                                   const std::vector<DeviceProcess>& processes,
                                   const ProcessTable& table) {
    std::erase_if(written_, [&](const auto& entry) { return !shares.contains(entry.first); });
    std::map<std::string, DeviceLedgers> devices;
    for (const auto& [share, measured] : shares)
        devices[measured.device].add(share, measured.before, measured.after);
    for (const auto& [share, measured] : shares) {
        std::vector<Overhead>& known = written_[share];
        known.resize(DRAWBRIDGE_SLOTS);
        std::vector<DeviceProcess> here = processes;
        std::erase_if(here, [&device = measured.device](const DeviceProcess& one) {
            return !one.device_uuid.ends_with(device);
        });
        const DeviceLedgers& all = devices[measured.device];
        const OverheadView view{all.before, all.after, here, table};
        const std::size_t first = all.first_slot.at(share);
        MeasuredOverhead sum;
        for (std::size_t slot = 0; slot < measured.after.size(); ++slot) {
            Overhead& written = known[slot];
            written.mib = word_at<std::uint32_t>(measured.page, overhead_offset(slot));
            const Overhead now = overhead_of(view, first + slot, written);
            write_overhead(share, slot, now, written);
            contexts_.saw(measured.device, written, now);
            sum.bytes += now.mib * mib;
            sum.uncounted += uncounted(now, measured.after[slot]);
            written = now;
        }
        parts_.book.set_overhead(share, sum);
    }
}

/// What is news is told to the shares that have no process yet: their first one reads it.
void ShareMeasure::learn_contexts(Shares& shares, const ContextSizes& before) {
    constexpr std::size_t place = offsetof(drawbridge_limits, context_bytes);
    for (const auto& [share, measured] : shares)
        contexts_.remember(measured.device, word_at<std::uint64_t>(measured.page, place));
    if (!(contexts_ == before)) {
        for (const std::string& share : parts_.folders.list().value_or(std::vector<std::string>()))
            add(shares, share);
    }
    for (const auto& [share, measured] : shares) {
        const std::uint64_t bytes = contexts_.bytes(measured.device);
        if (bytes != word_at<std::uint64_t>(measured.page, place))
            write(share, place, bytes_of(bytes));
    }
}

/// What a driver that tells of no process says nothing of is not known.
void ShareMeasure::count_time(const Shares& shares, const std::vector<DeviceProcess>& processes,
                              const ProcessTable& table) {
    std::map<std::string, std::vector<std::uint16_t>> seen;
    for (const auto& [share, measured] : shares) {
        std::optional<GpuTime> sum;
        std::vector<std::uint16_t>& now = seen[share];
        std::vector<std::uint16_t>& before = shown_[share];
        now.resize(DRAWBRIDGE_SLOTS);
        before.resize(DRAWBRIDGE_SLOTS);
        for (std::size_t slot = 0; slot < measured.after.size(); ++slot) {
            const DeviceProcess* process =
                is_first_of_owner(measured.after, slot)
                    ? find_process(measured.after[slot], measured.device, processes, table)
                    : nullptr;
            if (process != nullptr && process->time) {
                const GpuTime before_it = sum.value_or(GpuTime());
                sum = GpuTime{.permille = before_it.permille + process->time->permille,
                              .ns = before_it.ns + process->time->ns};
                now[slot] = static_cast<std::uint16_t>(process->time->permille);
            }
            const std::size_t place =
                offsetof(drawbridge_limits, util_permille) + slot * sizeof(std::uint16_t);
            // The driver may have nothing new at a look; that twice is idle.
            const std::uint16_t shown = now[slot] != 0 ? now[slot] : before[slot];
            if (shown != word_at<std::uint16_t>(measured.page, place))
                write(share, place, bytes_of(shown));
        }
        if (sum) parts_.book.add_gpu_time(share, *sum);
    }
    shown_ = std::move(seen);
}

ShareMeasure::Place ShareMeasure::place_of(Shares& shares, const DeviceProcess& one,
                                           const Process& process) const {
    const auto is_elsewhere = [&](const std::string& share) {
        return !add(shares, share) || !one.device_uuid.ends_with(shares[share].device);
    };
    const auto is_counted = [&](const std::string& share) {
        return !is_elsewhere(share) && owns_slot(shares[share].after, process);
    };
    Place place;
    for (const auto& [share, measured] : shares) {
        if (is_counted(share)) place.shares.push_back(share);
    }
    if (!place.shares.empty()) return place;
    place.shares = shares_in_mounts(parts_.mounts(one.pid));
    std::erase_if(place.shares, is_elsewhere);
    // One that has taken its slot a moment ago.
    place.stranger = std::ranges::none_of(place.shares, is_counted);
    return place;
}

void ShareMeasure::find_overruns(std::map<std::string, Holding>& holdings, Suspects& found) {
    for (auto& [share, holding] : holdings) {
        if (!holding.is_over()) continue;
        for (auto& [name, limit] : holding.limits)
            limit = std::max(limit, parts_.allocated(name));
    }
    for (const auto& [share, bytes] :
         overruns_.look(holdings, nanoseconds(parts_.clock.steady()))) {
        found[share].overrun_bytes = bytes;
        found[share].pod_uid = pod_in_mounts(parts_.mounts(holdings[share].pid));
    }
}

Suspects ShareMeasure::suspects(Shares& shares, const std::vector<DeviceProcess>& processes,
                                const ProcessTable& table) {
    std::set<std::pair<std::string, std::uint32_t>> seen;
    std::map<std::string, Holding> holdings;
    Suspects found;
    for (const DeviceProcess& one : processes) {
        const auto process = std::ranges::find(table.processes, one.pid, &Process::pid);
        if (process == table.processes.end() || process->has_ended) continue;
        const Place place = place_of(shares, one, *process);
        if (place.shares.empty()) continue;
        // The first that fits, as the library charges; what they may hold is that of all.
        const std::string& share = place.shares.front();
        Holding& holding = holdings[share];
        holding.add(one);
        for (const std::string& name : place.shares)
            holding.limits[name] = shares.at(name).memory_bytes;
        if (!place.stranger) continue;
        seen.emplace(share, one.pid);
        if (!strangers_.contains({share, one.pid})) continue;
        ++found[share].strangers;
        found[share].pod_uid = pod_in_mounts(parts_.mounts(one.pid));
    }
    strangers_ = std::move(seen);
    find_overruns(holdings, found);
    return found;
}

Suspects ShareMeasure::measure(const std::vector<std::string>& names,
                               const std::function<std::vector<DeviceProcess>()>& ask) {
    Shares shares;
    for (const std::string& share : names)
        add(shares, share);
    const auto processes = ask();
    for (auto& [share, measured] : shares)
        measured.after = read_now(parts_.book, share).value_or(LedgerCopy());
    std::vector<std::uint32_t> pids;
    for (const DeviceProcess& process : processes)
        pids.push_back(process.pid);
    const ProcessTable table = parts_.processes(pids);
    const ContextSizes known = contexts_;
    write_overheads(shares, processes, table);
    learn_contexts(shares, known);
    count_time(shares, processes, table);
    Suspects found = suspects(shares, processes, table);
    parts_.book.set_suspects(found);
    return found;
}

}  // namespace drawbridge::agent
