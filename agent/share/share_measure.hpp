#pragma once
// Compares the driver's word on processes with the ledgers, and writes what follows from it.

#include "agent/files.hpp"
#include "agent/share/context_sizes.hpp"
#include "agent/share/device_processes.hpp"
#include "agent/share/share_book.hpp"
#include "agent/share/share_folders.hpp"
#include "agent/share/suspects.hpp"
#include "base/clock.hpp"

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::agent {

struct MeasureParts {
    Files& files;
    const ShareFolders& folders;
    ShareBook& book;
    std::function<ProcessTable(std::span<const std::uint32_t> pids)> processes;
    std::function<std::string(std::uint32_t pid)> mounts;  ///< text of its mountinfo
    /// What was allocated to a share, where an administrator holds it to less; negative: not known.
    std::function<std::int64_t(const std::string& share)> allocated;
    const base::Clock& clock;
};

/// One thread at a time; blocks on files.
class ShareMeasure {
public:
    explicit ShareMeasure(MeasureParts parts) : parts_(std::move(parts)) {}

    /// `ask` asks the driver for the processes on all GPUs. Writes overheads and the size of a
    /// context into the limits of `names`, which are those that may have a process in their ledger,
    /// and gives the shares whose processes have no slot in their ledgers, seen twice in a row, or
    /// hold more than the limit, `names` or not.
    Suspects measure(const std::vector<std::string>& names,
                     const std::function<std::vector<DeviceProcess>()>& ask);

private:
    /// A share at one measuring.
    struct Measured {
        std::string device = {};
        std::int64_t memory_bytes = 0;  ///< limit; negative: none
        std::string page = {};          ///< its limits, as they lie there
        LedgerCopy before = {};
        LedgerCopy after = {};
    };
    using Shares = std::map<std::string, Measured>;

    /// Adds a share as it is now, unless it is there; whether it is.
    bool add(Shares& shares, const std::string& share) const;
    void write_overheads(const Shares& shares, const std::vector<DeviceProcess>& processes,
                         const ProcessTable& table);
    void write_overhead(const std::string& share, std::size_t slot, const Overhead& now,
                        const Overhead& written);
    void learn_contexts(Shares& shares, const ContextSizes& before);
    void count_time(const Shares& shares, const std::vector<DeviceProcess>& processes,
                    const ProcessTable& table);
    void write(const std::string& share, std::size_t offset, std::string_view bytes);
    /// The shares of a process's GPU that it counts in, or else, as a stranger, those that its
    /// container has.
    struct Place {
        std::vector<std::string> shares = {};
        bool stranger = false;
    };
    void find_overruns(std::map<std::string, Holding>& holdings, Suspects& found);
    [[nodiscard]] Place place_of(Shares& shares, const DeviceProcess& one,
                                 const Process& process) const;
    Suspects suspects(Shares& shares, const std::vector<DeviceProcess>& processes,
                      const ProcessTable& table);

    MeasureParts parts_;
    ContextSizes contexts_;
    std::map<std::string, std::vector<std::uint16_t>> shown_;  ///< GPU time at the last look
    std::map<std::string, std::vector<Overhead>> written_;
    Overruns overruns_;
    std::set<std::pair<std::string, std::uint32_t>>
        strangers_;  ///< share and pid, of the last time
};

/// A process's `/proc/<pid>/mountinfo`; empty where it cannot be read.
[[nodiscard]] std::string read_mounts(std::uint32_t pid);

}  // namespace drawbridge::agent
