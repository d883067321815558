#include "agent/share_upkeep.hpp"

#include "preload/abi.h"

#include <cstddef>
#include <cstring>

namespace drawbridge::agent {
namespace {

std::string word(std::uint64_t value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
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

void ShareUpkeep::look_at(const LookAt& look) {
    const auto names = shares();
    parts_.book.keep_only(names);
    for (const std::string& share : names) {
        const auto file = LedgerFile::open(parts_.folders.path(share, DRAWBRIDGE_LEDGER_FILE));
        if (!file) continue;
        const auto copy = file->read();
        if (!copy) continue;
        // What is freed behind this has been counted.
        parts_.book.take(share, *copy);
        look(share, *file, *copy);
    }
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
