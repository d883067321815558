#include "agent/share/ledger_watch.hpp"

#include "base/inotify.hpp"
#include "preload/abi.h"

#include <algorithm>
#include <string_view>

namespace drawbridge::agent {
namespace {

constexpr std::uint32_t listing_events =
    IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR;

}  // namespace

LedgerWatch::LedgerWatch(const ShareFolders& folders)
    : folders_(folders), inotify_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    folder_ = ::inotify_add_watch(inotify_.get(), folders.folder().c_str(), listing_events);
}

std::vector<std::string> LedgerWatch::watch(const std::vector<std::string>& shares) {
    std::set<std::string> missing(shares.begin(), shares.end());
    std::erase_if(shares_, [&](const auto& entry) {
        if (missing.erase(entry.second) != 0) return false;
        ::inotify_rm_watch(inotify_.get(), entry.first);
        return true;
    });
    for (const std::string& share : missing) {
        const std::string ledger = folders_.path(share, DRAWBRIDGE_LEDGER_FILE);
        const int watch =
            ::inotify_add_watch(inotify_.get(), ledger.c_str(), IN_OPEN | IN_DONT_FOLLOW);
        if (watch >= 0) shares_[watch] = share;
    }
    return {missing.begin(), missing.end()};
}

void LedgerWatch::take_event(int watch, std::uint32_t mask, LedgerNews& news) {
    if ((mask & IN_Q_OVERFLOW) != 0) news.lost = true;
    if (watch == folder_) {
        news.listing = true;
        if ((mask & IN_IGNORED) != 0) folder_ = -1;
        return;
    }
    const auto found = shares_.find(watch);
    if (found == shares_.end()) return;
    if ((mask & IN_OPEN) != 0) news.opened.insert(found->second);
    if ((mask & IN_IGNORED) == 0) return;
    // The file is gone, and another one may lie in its place.
    shares_.erase(found);
    news.listing = true;
}

LedgerNews LedgerWatch::take() {
    LedgerNews news{.listing = !sees_listing()};
    base::take_inotify_events(inotify_.get(), [&](const inotify_event& event, std::string_view) {
        take_event(event.wd, event.mask, news);
    });
    return news;
}

}  // namespace drawbridge::agent
