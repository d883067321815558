#include "agent/share/ledger_copy.hpp"

#include "base/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace drawbridge::agent {

static_assert(ledger_head_bytes <= offsetof(drawbridge_ledger, tat_ns));

SlotOwner LedgerSlot::owner() const {
    return {.pid = content.pid,
            .start_time = content.start_time,
            .pid_namespace = content.pid_namespace,
            .without_locks = (content.flags & DRAWBRIDGE_SLOT_NO_LOCKS) != 0};
}

base::Result<std::size_t> slots_in_head(std::string_view head) {
    drawbridge_header header{};
    std::uint32_t high_water = 0;
    if (head.size() < ledger_head_bytes)
        return base::fail(base::ErrorKind::invalid_input, "shorter than it should be");
    std::memcpy(&header, head.data(), sizeof header);
    std::memcpy(&high_water, head.data() + offsetof(drawbridge_ledger, high_water),
                sizeof high_water);
    if (header.magic != DRAWBRIDGE_LEDGER_MAGIC || header.file_size != DRAWBRIDGE_LEDGER_SIZE)
        return base::fail(base::ErrorKind::invalid_input, "another magic than it should have");
    if (header.major != DRAWBRIDGE_ABI_MAJOR) {
        return base::fail(base::ErrorKind::unavailable,
                          fmt::format("version {} of the layout", header.major));
    }
    return std::min<std::size_t>(high_water, DRAWBRIDGE_SLOTS);
}

std::size_t used_offset(std::size_t slot) {
    return offsetof(drawbridge_ledger, used) + slot * sizeof(std::uint64_t);
}

std::size_t slot_offset(std::size_t slot) {
    return offsetof(drawbridge_ledger, slot) + slot * sizeof(drawbridge_slot);
}

LedgerCopy ledger_copy(std::string_view used, std::string_view slots) {
    LedgerCopy copy(used.size() / sizeof(std::uint64_t));
    DCHECK(slots.size() == copy.size() * sizeof(drawbridge_slot));
    for (std::size_t i = 0; i < copy.size(); ++i) {
        std::memcpy(&copy[i].used, used.data() + i * sizeof(std::uint64_t), sizeof(std::uint64_t));
        std::memcpy(&copy[i].content, slots.data() + i * sizeof(drawbridge_slot),
                    sizeof(drawbridge_slot));
    }
    return copy;
}

base::Result<LedgerCopy> parse_ledger(std::string_view file) {
    if (file.size() != DRAWBRIDGE_LEDGER_SIZE)
        return base::fail(base::ErrorKind::invalid_input, "another size than it should have");
    const auto slots = slots_in_head(file.substr(0, ledger_head_bytes));
    if (!slots) return tl::unexpected(slots.error());
    return ledger_copy(file.substr(used_offset(0), *slots * sizeof(std::uint64_t)),
                       file.substr(slot_offset(0), *slots * sizeof(drawbridge_slot)));
}

}  // namespace drawbridge::agent
