#pragma once
// What the agent does for the shares of running containers, again and again: it shows them that it
// lives, and frees what the dead have left in their ledgers (enforcement.md 4.4, 4.8).

#include "agent/files.hpp"
#include "agent/share/busy_scale.hpp"
#include "agent/share/contention.hpp"
#include "agent/share/ledger_file.hpp"
#include "agent/share/share_book.hpp"
#include "agent/share/share_folders.hpp"
#include "base/clock.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace drawbridge::agent {

struct UpkeepParts {
    Files& files;
    const ShareFolders& folders;
    ShareBook& book;
    const base::Clock& clock;  ///< whose steady time is CLOCK_MONOTONIC, as the library reads it
    std::function<ProcessTable()> processes;
    std::function<PauseTimes()> pauses;
};

/// What was found in one share.
struct SeenShare {
    std::string share = {};
    bool has_process = false;
    std::size_t reaped = 0;  ///< slots that were freed
};

/// One thread at a time; each call blocks on files.
class ShareUpkeep {
public:
    explicit ShareUpkeep(UpkeepParts parts) : parts_(std::move(parts)) {}

    /// Renews the heartbeat of each share. Libraries take a share whose heartbeat is older than
    /// ten seconds as contended.
    void beat(const std::vector<std::string>& shares);
    /// Looks at each ledger: so the book knows what was done in between. Shares whose GPU another
    /// one works on are told so for the next three seconds, those that one of a higher priority
    /// works beside are paused, and the time that launches are charged is corrected. `reap` frees
    /// the slots of processes that are gone. A share without a ledger is not among the answers.
    [[nodiscard]] std::vector<SeenShare> look(const std::vector<std::string>& shares, bool reap);

private:
    /// A share at one look.
    struct Seen {
        std::string share = {};
        ReadLimits limits = {};
    };

    [[nodiscard]] Neighbour neighbour(const std::string& share, const ReadLimits& limits,
                                      const LedgerCopy& copy);
    void tell_contention(const std::vector<Seen>& seen, const std::vector<Neighbour>& neighbours);
    void pause(const std::vector<Seen>& seen, const std::vector<Neighbour>& neighbours);
    void scale(const std::vector<Seen>& seen, const std::vector<Neighbour>& neighbours);
    template <class Word>
    void write_word(const std::string& share, std::size_t offset, Word value);

    UpkeepParts parts_;
    std::map<std::string, PauseGuard> guards_;
    std::map<std::string, BusyScale> scales_;
};

}  // namespace drawbridge::agent
