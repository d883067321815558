#pragma once
// A ledger as it lay on disk at one moment: the slots that were ever used. Nothing in it is
// trusted, since every process of the claim may write it.

#include "base/result.hpp"
#include "preload/abi.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// Who took a slot, as the process itself saw it (enforcement.md 4.4).
struct SlotOwner {
    std::uint32_t pid = 0;  ///< in `pid_namespace`
    std::uint64_t start_time = 0;
    std::uint64_t pid_namespace = 0;
    bool without_locks = false;

    [[nodiscard]] bool operator==(const SlotOwner&) const = default;
};

struct LedgerSlot {
    std::uint64_t used = 0;  ///< bytes charged, provisional overhead included
    drawbridge_slot content = {};

    [[nodiscard]] bool is_live() const { return content.state == DRAWBRIDGE_SLOT_LIVE; }
    [[nodiscard]] SlotOwner owner() const;
};

using LedgerCopy = std::vector<LedgerSlot>;

/// The first bytes of a ledger, which say how many slots follow.
inline constexpr std::size_t ledger_head_bytes = 64;

/// Number of slots that were ever used, at most 1024. `invalid_input` where the head is none of a
/// ledger, `unavailable` where it is of another version.
[[nodiscard]] base::Result<std::size_t> slots_in_head(std::string_view head);

/// Where the used word and the rest of a slot lie in the file.
[[nodiscard]] std::size_t used_offset(std::size_t slot);
[[nodiscard]] std::size_t slot_offset(std::size_t slot);

/// `used` and `slots` are the bytes of the same number of slots, from slot 0 on.
[[nodiscard]] LedgerCopy ledger_copy(std::string_view used, std::string_view slots);

/// The slots of a whole file; errors as above.
[[nodiscard]] base::Result<LedgerCopy> parse_ledger(std::string_view file);

}  // namespace drawbridge::agent
