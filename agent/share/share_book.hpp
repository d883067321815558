#pragma once
// What is known of the ledgers of this node: read again at each look, and remembered from one to
// the next.

#include "agent/share/open_ledgers.hpp"
#include "agent/share/share_folders.hpp"
#include "agent/share/share_use.hpp"
#include "agent/share/suspects.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace drawbridge::agent {

/// Memory of a share's processes that the driver counts and no gauge of theirs does.
struct MeasuredOverhead {
    std::int64_t bytes = 0;      ///< contexts, modules and the like
    std::int64_t uncounted = 0;  ///< of these, what no used word has: neither counted nor assumed
};

/// GPU time of a share by the driver's count.
struct GpuUse {
    std::uint64_t ns = 0;       ///< since the agent looked first
    std::int64_t permille = 0;  ///< of late; that of several processes may be more than all
    bool busy = false;          ///< some of it was at the last look
};

/// A share's use and activity at a look.
struct ShareActivity {
    LedgerUse use = {};
    LedgerCounts totals = {};
    LedgerRates rates = {};
    std::int64_t overhead_bytes = 0;  ///< of `use.used_bytes`: contexts and modules, as measured
    std::optional<GpuUse> gpu = std::nullopt;  ///< where the driver tells of late
    std::uint64_t gpu_ns = 0;                  ///< since the agent looked first
    Suspect suspect = {};
};

/// Any thread; calls block on files.
class ShareBook {
public:
    ShareBook(const ShareFolders& folders, const base::Clock& clock)
        : ledgers_(folders), clock_(clock) {}

    /// The node's ledgers, for all who read them.
    [[nodiscard]] OpenLedgers& ledgers() { return ledgers_; }
    /// Reads the share's ledger now.
    [[nodiscard]] base::Result<ShareActivity> look(const std::string& share,
                                                   std::int64_t physical_bytes);
    /// Takes a ledger that was read just now; whether the share worked within the last second.
    bool take(const std::string& share, const LedgerCopy& copy);
    /// What the driver counts for a share's processes beyond their ledger.
    void set_overhead(const std::string& share, const MeasuredOverhead& overhead);
    /// GPU time that the driver counts for a share's processes, since it was told last.
    void add_gpu_time(const std::string& share, const GpuTime& time);
    /// What was told of late; nothing where the driver does not tell.
    [[nodiscard]] std::optional<GpuUse> gpu_use(const std::string& share) const;
    /// GPU time that the share's processes were charged since the agent looked first.
    [[nodiscard]] std::uint64_t charged_ns(const std::string& share) const;
    /// Shares with processes that take more than theirs; of all others nothing is suspected.
    void set_suspects(Suspects suspects);
    [[nodiscard]] Suspects suspects() const;
    /// Forgets shares that are no more.
    void keep_only(const std::vector<std::string>& shares);

private:
    OpenLedgers ledgers_;
    const base::Clock& clock_;
    mutable std::mutex mutex_;
    std::map<std::string, ShareHistory> histories_;
    std::map<std::string, MeasuredOverhead> overheads_;
    Suspects suspects_;
    struct GpuCount {
        GpuUse use = {};
        std::uint64_t told_ns = 0;  ///< when
    };
    [[nodiscard]] std::optional<GpuUse> gpu_now(const std::string& share) const;
    std::map<std::string, GpuCount> gpu_;
};

/// A point of a clock's steady time in nanoseconds, which is CLOCK_MONOTONIC as the library reads
/// it.
[[nodiscard]] std::uint64_t nanoseconds(base::Clock::Steady time);

}  // namespace drawbridge::agent
