#include "agent/share/share_book.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::uint64_t gpu_news_ns = 5'000'000'000;

}  // namespace

std::uint64_t nanoseconds(base::Clock::Steady time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

base::Result<ShareActivity> ShareBook::look(const std::string& share, std::int64_t physical_bytes) {
    const auto file = ledgers_.open(share);
    if (!file) return tl::unexpected(file.error());
    const auto copy = (*file)->read();
    if (!copy) return tl::unexpected(copy.error());
    const std::lock_guard lock(mutex_);
    ShareHistory& history = histories_[share];
    history.take(*copy, nanoseconds(clock_.steady()));
    ShareActivity activity{use_of(*copy, physical_bytes), history.totals(), history.rates()};
    if (const auto found = overheads_.find(share); found != overheads_.end()) {
        activity.use.used_bytes +=
            std::min(found->second.uncounted, physical_bytes - activity.use.used_bytes);
        activity.overhead_bytes = std::min(found->second.bytes, activity.use.used_bytes);
    }
    if (const auto found = suspects_.find(share); found != suspects_.end())
        activity.suspect = found->second;
    activity.gpu = gpu_now(share);
    if (const auto found = gpu_.find(share); found != gpu_.end())
        activity.gpu_ns = found->second.use.ns;
    return activity;
}

void ShareBook::set_overhead(const std::string& share, const MeasuredOverhead& overhead) {
    const std::lock_guard lock(mutex_);
    overheads_[share] = overhead;
}

void ShareBook::add_gpu_time(const std::string& share, const GpuTime& time) {
    const std::lock_guard lock(mutex_);
    GpuCount& count = gpu_[share];
    // The driver may have nothing new at a look; that twice is idle.
    const bool idle = time.permille == 0 && !count.use.busy;
    count.use = {
        .ns = count.use.ns + time.ns,
        .permille = time.permille != 0 || idle ? std::int64_t{time.permille} : count.use.permille,
        .busy = time.ns != 0};
    count.told_ns = nanoseconds(clock_.steady());
}

std::optional<GpuUse> ShareBook::gpu_use(const std::string& share) const {
    const std::lock_guard lock(mutex_);
    return gpu_now(share);
}

std::optional<GpuUse> ShareBook::gpu_now(const std::string& share) const {
    const auto found = gpu_.find(share);
    if (found == gpu_.end()) return std::nullopt;
    const bool is_old = nanoseconds(clock_.steady()) - found->second.told_ns > gpu_news_ns;
    return is_old ? std::nullopt : std::optional(found->second.use);
}

std::uint64_t ShareBook::charged_ns(const std::string& share) const {
    const std::lock_guard lock(mutex_);
    const auto found = histories_.find(share);
    return found == histories_.end() ? 0 : found->second.totals().busy_ns;
}

void ShareBook::set_suspects(Suspects suspects) {
    const std::lock_guard lock(mutex_);
    suspects_ = std::move(suspects);
}

Suspects ShareBook::suspects() const {
    const std::lock_guard lock(mutex_);
    return suspects_;
}

bool ShareBook::take(const std::string& share, const LedgerCopy& copy) {
    const std::lock_guard lock(mutex_);
    ShareHistory& history = histories_[share];
    const std::uint64_t now = nanoseconds(clock_.steady());
    history.take(copy, now);
    return history.was_active(now);
}

void ShareBook::keep_only(const std::vector<std::string>& shares) {
    ledgers_.keep_only(shares);
    const std::lock_guard lock(mutex_);
    const auto is_gone = [&](const auto& entry) {
        return std::ranges::find(shares, entry.first) == shares.end();
    };
    std::erase_if(histories_, is_gone);
    std::erase_if(overheads_, is_gone);
    std::erase_if(gpu_, is_gone);
}

}  // namespace drawbridge::agent
