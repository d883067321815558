#pragma once
// Tells whose ledger was opened, by inotify: nobody can take a slot in it before.

#include "agent/share/share_folders.hpp"
#include "base/descriptor.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// What has happened since it was asked for last.
struct LedgerNews {
    std::set<std::string> opened = {};  ///< shares, by this process or by another one
    bool listing = false;               ///< shares have come or gone, or may have
    bool lost = false;                  ///< more than the kernel keeps: anything may have happened
};

/// One thread at a time. Where the kernel cannot watch, nothing is watched.
class LedgerWatch {
public:
    /// `folders` has a folder already, or none is watched.
    explicit LedgerWatch(const ShareFolders& folders);

    /// Watches the ledgers of these shares, and forgets others. Gives those of which nothing was
    /// known until now: they are watched from here on, or cannot be, since their ledger is not
    /// there yet or the kernel has no room.
    [[nodiscard]] std::vector<std::string> watch(const std::vector<std::string>& shares);
    [[nodiscard]] LedgerNews take();
    /// Whether shares that come and go are told when they do; else each `take` says that they may
    /// have.
    [[nodiscard]] bool sees_listing() const { return folder_ >= 0; }
    /// Can be read when there is news; negative where the kernel has no inotify to give.
    [[nodiscard]] int descriptor() const { return inotify_.get(); }

private:
    void take_event(int watch, std::uint32_t mask, LedgerNews& news);

    const ShareFolders& folders_;
    base::Descriptor inotify_;
    int folder_ = -1;
    std::map<int, std::string> shares_;  ///< by watch
};

}  // namespace drawbridge::agent
