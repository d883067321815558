#include "agent/share_book.hpp"

#include "agent/ledger_file.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

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
    ShareActivity activity{use_of(*copy, physical_bytes), history.totals(), history.rates()};
    if (const auto found = overheads_.find(share); found != overheads_.end()) {
        activity.overhead_bytes = std::min(found->second, physical_bytes - activity.use.used_bytes);
        activity.use.used_bytes += activity.overhead_bytes;
    }
    if (const auto found = strangers_.find(share); found != strangers_.end())
        activity.strangers = found->second;
    return activity;
}

void ShareBook::set_overhead(const std::string& share, std::int64_t bytes) {
    const std::lock_guard lock(mutex_);
    overheads_[share] = bytes;
}

void ShareBook::set_strangers(std::map<std::string, std::int64_t> strangers) {
    const std::lock_guard lock(mutex_);
    strangers_ = std::move(strangers);
}

std::map<std::string, std::int64_t> ShareBook::strangers() const {
    const std::lock_guard lock(mutex_);
    return strangers_;
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
    const auto is_gone = [&](const auto& entry) {
        return std::ranges::find(shares, entry.first) == shares.end();
    };
    std::erase_if(histories_, is_gone);
    std::erase_if(overheads_, is_gone);
}

}  // namespace drawbridge::agent
