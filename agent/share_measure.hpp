#pragma once
// Compares the driver's word on processes with the ledgers, and writes what follows from it.

#include "agent/device_processes.hpp"
#include "agent/files.hpp"
#include "agent/share_book.hpp"
#include "agent/share_folders.hpp"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::agent {

struct MeasureParts {
    Files& files;
    const ShareFolders& folders;
    ShareBook& book;
    std::function<ProcessTable()> processes;
    std::function<std::string(std::uint32_t pid)> mounts;  ///< text of its mountinfo
};

/// One thread at a time; blocks on files.
class ShareMeasure {
public:
    explicit ShareMeasure(MeasureParts parts) : parts_(std::move(parts)) {}

    /// `ask` asks the driver for the processes on all GPUs. Writes overheads into limits, and gives
    /// the shares that processes use which have no slot in their ledgers: seen twice in a row,
    /// with their number.
    std::map<std::string, std::int64_t> measure(
        const std::function<std::vector<DeviceProcess>()>& ask);

private:
    /// A share at one measuring.
    struct Measured {
        std::string device = {};
        LedgerCopy before = {};
        LedgerCopy after = {};
    };
    using Shares = std::map<std::string, Measured>;

    [[nodiscard]] Shares begin() const;
    void write_overheads(const Shares& shares, const std::vector<DeviceProcess>& processes,
                         const ProcessTable& table);
    std::map<std::string, std::int64_t> strangers(const Shares& shares,
                                                  const std::vector<DeviceProcess>& processes,
                                                  const ProcessTable& table);

    MeasureParts parts_;
    std::map<std::string, std::vector<Overhead>> written_;
    std::set<std::pair<std::string, std::uint32_t>>
        suspected_;  ///< share and pid, of the last time
};

/// A process's `/proc/<pid>/mountinfo`; empty where it cannot be read.
[[nodiscard]] std::string read_mounts(std::uint32_t pid);

}  // namespace drawbridge::agent
