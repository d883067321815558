#include "agent/share_book.hpp"

#include "agent/ledger_file.hpp"

#include <algorithm>
#include <chrono>

namespace drawbridge::agent {

std::uint64_t nanoseconds(base::Clock::Steady time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

base::Result<ShareActivity> ShareBook::look(const std::string& share, std::int64_t physical_bytes) {
    const auto file = LedgerFile::open(folders_.path(share, DRAWBRIDGE_LEDGER_FILE));
    if (!file) return tl::unexpected(file.error());
    const auto copy = file->read();
    if (!copy) return tl::unexpected(copy.error());
    const std::lock_guard lock(mutex_);
    ShareHistory& history = histories_[share];
    history.take(*copy, nanoseconds(clock_.steady()));
    return ShareActivity{use_of(*copy, physical_bytes), history.totals(), history.rates()};
}

bool ShareBook::take(const std::string& share, const LedgerCopy& copy) {
    const std::lock_guard lock(mutex_);
    ShareHistory& history = histories_[share];
    const std::uint64_t now = nanoseconds(clock_.steady());
    history.take(copy, now);
    return history.was_active(now);
}

void ShareBook::keep_only(const std::vector<std::string>& shares) {
    const std::lock_guard lock(mutex_);
    std::erase_if(histories_, [&](const auto& entry) {
        return std::ranges::find(shares, entry.first) == shares.end();
    });
}

}  // namespace drawbridge::agent
