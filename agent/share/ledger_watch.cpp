#include "agent/share/ledger_watch.hpp"

#include "preload/abi.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sys/inotify.h>
#include <unistd.h>

namespace drawbridge::agent {
namespace {

constexpr std::uint32_t listing_events =
    IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM | IN_ONLYDIR;
constexpr std::size_t buffer_bytes = 16384;

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
    alignas(inotify_event) std::array<char, buffer_bytes> buffer{};
    while (true) {
        const ssize_t got = ::read(inotify_.get(), buffer.data(), buffer.size());
        if (got <= 0) return news;
        for (std::size_t at = 0; at < static_cast<std::size_t>(got);) {
            inotify_event event{};
            std::memcpy(&event, buffer.data() + at, sizeof event);
            take_event(event.wd, event.mask, news);
            at += sizeof event + event.len;
        }
    }
}

}  // namespace drawbridge::agent
