#pragma once
// The ledgers of this node, each opened once: who opens one after that is somebody else, which is
// what a share wakes from.

#include "agent/share/ledger_file.hpp"
#include "agent/share/share_folders.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// Any thread; calls block on files.
class OpenLedgers {
public:
    /// More are opened anew at each call: a process may have 1024 files.
    static constexpr std::size_t most_kept = 700;

    explicit OpenLedgers(const ShareFolders& folders) : folders_(folders) {}

    /// The ledger that lies there now; errors as those of LedgerFile::open.
    [[nodiscard]] base::Result<std::shared_ptr<const LedgerFile>> open(const std::string& share);
    /// Closes those of other shares.
    void keep_only(const std::vector<std::string>& shares);

private:
    const ShareFolders& folders_;
    std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const LedgerFile>> kept_;
};

}  // namespace drawbridge::agent
