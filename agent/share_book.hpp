#pragma once
// What is known of the ledgers of this node: read again at each look, and remembered from one to
// the next.

#include "agent/share_folders.hpp"
#include "agent/share_use.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace drawbridge::agent {

/// A share's use and activity at a look.
struct ShareActivity {
    LedgerUse use = {};
    LedgerCounts totals = {};
    LedgerRates rates = {};
    std::int64_t overhead_bytes = 0;  ///< of `use.used_bytes`: measured, in no used word
    std::int64_t strangers = 0;       ///< processes on the GPU that have no slot
};

/// Any thread; calls block on files.
class ShareBook {
public:
    ShareBook(const ShareFolders& folders, const base::Clock& clock)
        : folders_(folders), clock_(clock) {}

    /// Reads the share's ledger now.
    [[nodiscard]] base::Result<ShareActivity> look(const std::string& share,
                                                   std::int64_t physical_bytes);
    /// Takes a ledger that was read just now; whether the share worked within the last second.
    bool take(const std::string& share, const LedgerCopy& copy);
    /// What the driver counts for a share's processes beyond their ledger.
    void set_overhead(const std::string& share, std::int64_t bytes);
    /// Shares with processes that use the GPU without a slot, and their number; of all others none.
    void set_strangers(std::map<std::string, std::int64_t> strangers);
    [[nodiscard]] std::map<std::string, std::int64_t> strangers() const;
    /// Forgets shares that are no more.
    void keep_only(const std::vector<std::string>& shares);

private:
    const ShareFolders& folders_;
    const base::Clock& clock_;
    mutable std::mutex mutex_;
    std::map<std::string, ShareHistory> histories_;
    std::map<std::string, std::int64_t> overheads_;
    std::map<std::string, std::int64_t> strangers_;
};

/// A point of a clock's steady time in nanoseconds, which is CLOCK_MONOTONIC as the library reads
/// it.
[[nodiscard]] std::uint64_t nanoseconds(base::Clock::Steady time);

}  // namespace drawbridge::agent
