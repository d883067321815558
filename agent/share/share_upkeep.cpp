#include "agent/share/share_upkeep.hpp"

#include "preload/abi.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace drawbridge::agent {
namespace {

// What lapses by itself, should the agent end.
constexpr std::uint64_t order_ns = 3'000'000'000;

template <class Word>
std::string bytes_of(Word value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

}  // namespace

/// A share that is being made or removed has no file, and needs no word.
template <class Word>
void ShareUpkeep::write_word(const std::string& share, std::size_t offset, Word value) {
    static_cast<void>(parts_.files.patch(parts_.folders.path(share, DRAWBRIDGE_LIMITS_FILE), offset,
                                         bytes_of(value)));
}

void ShareUpkeep::beat(const std::vector<std::string>& shares) {
    const std::uint64_t now = nanoseconds(parts_.clock.steady());
    for (const std::string& share : shares)
        write_word(share, offsetof(drawbridge_limits, heartbeat_ns), now);
}

/// Counts what was done since the last look.
Neighbour ShareUpkeep::neighbour(const std::string& share, const ReadLimits& limits,
                                 const LedgerCopy& copy) {
    const auto gpu = parts_.book.gpu_use(share);
    return {.device = limits.device_uuid,
            .worked = parts_.book.take(share, copy),
            .has_limit = limits.limits_compute(),
            .has_process = std::ranges::any_of(copy, &LedgerSlot::is_live),
            .gpu_busy = gpu ? std::optional(gpu->busy) : std::nullopt,
            .priority = limits.priority};
}

std::vector<SeenShare> ShareUpkeep::look(const std::vector<std::string>& shares, bool reap) {
    std::vector<SeenShare> found;
    std::vector<Seen> seen;
    std::vector<Neighbour> neighbours;
    for (const std::string& share : shares) {
        const auto file = parts_.book.ledgers().open(share);
        if (!file) continue;
        const auto copy = (*file)->read();
        if (!copy) continue;
        if (auto limits = parts_.folders.limits(share)) {
            neighbours.push_back(neighbour(share, *limits, *copy));
            seen.push_back({share, *std::move(limits)});
        }
        found.push_back({share, std::ranges::any_of(*copy, &LedgerSlot::is_live)});
        // What is freed has been counted.
        if (reap) found.back().reaped = agent::reap(**file, *copy, parts_.processes).size();
    }
    tell_contention(seen, neighbours);
    pause(seen, neighbours);
    scale(seen, neighbours);
    return found;
}

void ShareUpkeep::tell_contention(const std::vector<Seen>& seen,
                                  const std::vector<Neighbour>& neighbours) {
    const std::uint64_t until = nanoseconds(parts_.clock.steady()) + order_ns;
    for (const std::size_t at : contended(neighbours))
        write_word(seen[at].share, offsetof(drawbridge_limits, contended_until_ns), until);
}

/// A share that is not to wait any more is told so at once, and not only when its pause lapses.
void ShareUpkeep::pause(const std::vector<Seen>& seen, const std::vector<Neighbour>& neighbours) {
    const std::uint64_t now = nanoseconds(parts_.clock.steady());
    const auto waiting = outranked(neighbours);
    const PauseTimes times = parts_.pauses();
    std::map<std::string, PauseGuard> guards;
    for (std::size_t at = 0; at < seen.size(); ++at) {
        const auto& [share, limits] = seen[at];
        PauseGuard& guard = guards[share] = guards_[share];
        const bool paused = guard.look(std::ranges::binary_search(waiting, at), now, times);
        const std::uint64_t until = paused ? now + order_ns : 0;
        if (until != limits.paused_until_ns)
            write_word(share, offsetof(drawbridge_limits, paused_until_ns), until);
    }
    guards_ = std::move(guards);
}

void ShareUpkeep::scale(const std::vector<Seen>& seen, const std::vector<Neighbour>& neighbours) {
    const std::uint64_t now = nanoseconds(parts_.clock.steady());
    std::map<std::string, BusyScale> scales;
    for (std::size_t at = 0; at < seen.size(); ++at) {
        const auto& [share, limits] = seen[at];
        const auto gpu = parts_.book.gpu_use(share);
        BusyScale& scale = scales[share] = scales_[share];
        const std::uint32_t fresh =
            scale.look({.now_ns = now,
                        .charged_ns = parts_.book.charged_ns(share),
                        .busy_ns = gpu ? std::optional(gpu->ns) : std::nullopt,
                        .active = count_active(neighbours, limits.device_uuid)},
                       limits.busy_scale);
        if (fresh != limits.busy_scale)
            write_word(share, offsetof(drawbridge_limits, busy_scale), fresh);
    }
    scales_ = std::move(scales);
}

}  // namespace drawbridge::agent
