#include "agent/share_upkeep.hpp"

#include "preload/abi.h"

#include <chrono>
#include <cstddef>
#include <cstring>

namespace drawbridge::agent {
namespace {

std::string word(std::uint64_t value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}

std::uint64_t nanoseconds(base::Clock::Steady time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

}  // namespace

std::vector<std::string> ShareUpkeep::shares() const {
    return parts_.folders.list().value_or(std::vector<std::string>());
}

void ShareUpkeep::beat() {
    const std::string now = word(nanoseconds(parts_.clock.steady()));
    for (const std::string& share : shares()) {
        // A share that is being made or removed has no file, and needs no heartbeat.
        static_cast<void>(parts_.files.patch(parts_.folders.path(share, DRAWBRIDGE_LIMITS_FILE),
                                             offsetof(drawbridge_limits, heartbeat_ns), now));
    }
}

std::vector<ReapedShare> ShareUpkeep::reap() {
    std::vector<ReapedShare> reaped;
    for (const std::string& share : shares()) {
        const auto file = LedgerFile::open(parts_.folders.path(share, DRAWBRIDGE_LEDGER_FILE));
        if (!file) continue;
        const auto copy = file->read();
        if (!copy) continue;
        const auto slots = agent::reap(*file, *copy, parts_.processes);
        if (!slots.empty()) reaped.push_back({share, slots.size()});
    }
    return reaped;
}

}  // namespace drawbridge::agent
