#include "agent/share_upkeep.hpp"

#include "preload/abi.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::uint64_t contention_ns = 3'000'000'000;

std::string bytes_of(std::uint64_t value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

}  // namespace

std::vector<std::string> ShareUpkeep::shares() const {
    return parts_.folders.list().value_or(std::vector<std::string>());
}

/// A share that is being made or removed has no file, and needs no word.
void ShareUpkeep::write_word(const std::string& share, std::size_t offset, std::uint64_t value) {
    static_cast<void>(parts_.files.patch(parts_.folders.path(share, DRAWBRIDGE_LIMITS_FILE), offset,
                                         bytes_of(value)));
}

void ShareUpkeep::beat() {
    const std::uint64_t now = nanoseconds(parts_.clock.steady());
    for (const std::string& share : shares())
        write_word(share, offsetof(drawbridge_limits, heartbeat_ns), now);
}

/// Counts what was done since the last look.
std::optional<Neighbour> ShareUpkeep::neighbour(const std::string& share, const LedgerCopy& copy) {
    const bool worked = parts_.book.take(share, copy);
    const auto limits = parts_.folders.limits(share);
    if (!limits) return std::nullopt;
    return Neighbour{.device = limits->device_uuid,
                     .worked = worked,
                     .has_limit = limits->limits_compute(),
                     .has_process = std::ranges::any_of(copy, &LedgerSlot::is_live)};
}

void ShareUpkeep::look_at(const LookAt& look) {
    const auto names = shares();
    parts_.book.keep_only(names);
    std::vector<std::string> seen;
    std::vector<Neighbour> neighbours;
    for (const std::string& share : names) {
        const auto file = LedgerFile::open(parts_.folders.path(share, DRAWBRIDGE_LEDGER_FILE));
        if (!file) continue;
        const auto copy = file->read();
        if (!copy) continue;
        if (auto found = neighbour(share, *copy)) {
            neighbours.push_back(*std::move(found));
            seen.push_back(share);
        }
        look(share, *file, *copy);  // what is freed there has been counted
    }
    const std::uint64_t until = nanoseconds(parts_.clock.steady()) + contention_ns;
    for (const std::size_t at : contended(neighbours))
        write_word(seen[at], offsetof(drawbridge_limits, contended_until_ns), until);
}

void ShareUpkeep::look() {
    look_at([](const std::string&, const LedgerFile&, const LedgerCopy&) {});
}

std::vector<ReapedShare> ShareUpkeep::reap() {
    std::vector<ReapedShare> reaped;
    look_at([&](const std::string& share, const LedgerFile& file, const LedgerCopy& copy) {
        const auto slots = agent::reap(file, copy, parts_.processes);
        if (!slots.empty()) reaped.push_back({share, slots.size()});
    });
    return reaped;
}

}  // namespace drawbridge::agent
