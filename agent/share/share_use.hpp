#pragma once
// What a share's processes hold and do, from one look at its ledger to the next. Pure: time comes
// in with each look.

#include "agent/share/ledger_copy.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace drawbridge::agent {

/// What processes hold now. A tenant can write what it likes: every figure is bounded by the
/// device's memory or the number of slots.
struct LedgerUse {
    std::int64_t used_bytes = 0;  ///< all that is charged, overhead included
    std::array<std::int64_t, DRAWBRIDGE_GAUGES> kind_bytes{};  ///< by drawbridge_gauge
    std::int64_t processes = 0;                                ///< live slots
};

/// Sums the slots; `physical_bytes` are those of the device.
[[nodiscard]] LedgerUse use_of(const LedgerCopy& copy, std::int64_t physical_bytes);

/// What processes did, counted up. Nanoseconds where a name says so.
struct LedgerCounts {
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::uint64_t denied = 0;
    std::uint64_t denied_bytes = 0;
    std::uint64_t launches = 0;
    std::uint64_t throttle_ns = 0;
    std::uint64_t busy_ns = 0;
    std::uint64_t unknown_frees = 0;
    std::uint64_t unknown_handles = 0;
    std::uint64_t identity_misses = 0;
    std::uint64_t oom_retries = 0;
    std::uint64_t errors = 0;

    [[nodiscard]] bool operator==(const LedgerCounts&) const = default;
};

/// The counters of one slot.
[[nodiscard]] LedgerCounts counts_of(const LedgerSlot& slot);

/// What was done in one second of late.
struct LedgerRates {
    std::int64_t launches = 0;
    std::int64_t denied = 0;
    std::int64_t busy_permille = 0;       ///< of a second of the GPU, where compute is limited
    std::int64_t throttled_permille = 0;  ///< of a second, of all processes together
};

/// Follows one share. Counts of processes that have ended stay in the totals, which never fall;
/// they begin where the first look finds them.
class ShareHistory {
public:
    /// Takes a look at time `now_ns`, which never goes back.
    void take(const LedgerCopy& copy, std::uint64_t now_ns);

    [[nodiscard]] const LedgerCounts& totals() const { return totals_; }
    /// Between the last two looks that lie half a second or more apart; zero before there are two.
    [[nodiscard]] LedgerRates rates() const;
    /// Whether anything was launched, allocated, freed, or had to wait, in the second before
    /// `now_ns` as far as looks tell.
    [[nodiscard]] bool was_active(std::uint64_t now_ns) const;

private:
    struct Point {
        std::uint64_t time_ns = 0;
        LedgerCounts totals = {};
    };
    struct Seen {
        SlotOwner owner = {};
        LedgerCounts counts = {};
    };

    [[nodiscard]] LedgerCounts news_of(std::size_t slot, const LedgerSlot& content);

    std::vector<Seen> seen_;
    LedgerCounts totals_;
    std::vector<Point> points_;  ///< two at most
    std::uint64_t active_ns_ = 0;
    bool looked_ = false;
};

}  // namespace drawbridge::agent
