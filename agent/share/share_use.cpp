#include "agent/share/share_use.hpp"

#include <algorithm>
#include <initializer_list>
#include <span>

namespace drawbridge::agent {
namespace {

constexpr std::uint64_t second_ns = 1'000'000'000;
constexpr std::uint64_t least_span_ns = second_ns / 2;
// More than any process does between two looks; what is beyond is noise, and may overflow no sum.
constexpr std::uint64_t most_at_once = std::uint64_t{1} << 40U;

constexpr std::uint64_t most_ever = INT64_MAX;

using Count = std::uint64_t LedgerCounts::*;
constexpr std::initializer_list<Count> all_counts = {
    &LedgerCounts::allocations,  &LedgerCounts::frees,           &LedgerCounts::denied,
    &LedgerCounts::denied_bytes, &LedgerCounts::launches,        &LedgerCounts::throttle_ns,
    &LedgerCounts::busy_ns,      &LedgerCounts::unknown_frees,   &LedgerCounts::unknown_handles,
    &LedgerCounts::oom_retries,  &LedgerCounts::identity_misses, &LedgerCounts::errors};

std::int64_t bounded_sum(std::int64_t sum, std::uint64_t more, std::int64_t most) {
    const auto room = static_cast<std::uint64_t>(most - sum);
    return sum + static_cast<std::int64_t>(std::min(more, room));
}

bool shows_work(const LedgerCounts& news) {
    return (news.allocations | news.frees | news.denied | news.launches | news.throttle_ns |
            news.busy_ns) != 0;
}

}  // namespace

LedgerUse use_of(const LedgerCopy& copy, std::int64_t physical_bytes) {
    LedgerUse use;
    for (const LedgerSlot& slot : copy) {
        use.used_bytes = bounded_sum(use.used_bytes, slot.used, physical_bytes);
        if (!slot.is_live()) continue;
        ++use.processes;
        const std::span<const std::uint64_t> gauges = slot.content.gauge;
        for (std::size_t kind = 0; kind < use.kind_bytes.size(); ++kind) {
            std::int64_t& sum = use.kind_bytes[kind];
            sum = bounded_sum(sum, gauges[kind], physical_bytes);
        }
    }
    return use;
}

LedgerCounts counts_of(const LedgerSlot& slot) {
    const drawbridge_slot& from = slot.content;
    return {.allocations = from.allocations,
            .frees = from.frees,
            .denied = from.denied,
            .denied_bytes = from.denied_bytes,
            .launches = from.launches,
            .throttle_ns = from.throttle_ns,
            .busy_ns = from.busy_ns,
            .unknown_frees = from.unknown_frees,
            .unknown_handles = from.unknown_handles,
            .identity_misses = from.identity_misses,
            .oom_retries = from.oom_retries,
            .errors = from.errors};
}

LedgerCounts ShareHistory::news_of(std::size_t slot, const LedgerSlot& content) {
    Seen& before = seen_[slot];
    const Seen now{content.owner(), counts_of(content)};
    const bool same = before.owner == now.owner;
    LedgerCounts news;
    for (const Count count : all_counts) {
        // A counter that fell is another process's, or was written by a tenant.
        const bool goes_on = same && now.counts.*count >= before.counts.*count;
        const std::uint64_t grown = now.counts.*count - (goes_on ? before.counts.*count : 0);
        news.*count = std::min(grown, most_at_once);
    }
    before = now;
    return news;
}

void ShareHistory::take(const LedgerCopy& copy, std::uint64_t now_ns) {
    seen_.resize(std::max(seen_.size(), copy.size()));
    bool worked = false;
    for (std::size_t slot = 0; slot < copy.size(); ++slot) {
        // What is left in a free slot was counted while it was live, or is of nobody.
        if (!copy[slot].is_live()) continue;
        const LedgerCounts news = news_of(slot, copy[slot]);
        worked = worked || shows_work(news);
        for (const Count count : all_counts)
            totals_.*count = std::min(totals_.*count + news.*count, most_ever);
    }
    if (worked && looked_) active_ns_ = now_ns;
    looked_ = true;
    if (!points_.empty() && now_ns < points_.back().time_ns + least_span_ns) return;
    if (points_.size() == 2) points_.erase(points_.begin());
    points_.push_back({now_ns, totals_});
}

LedgerRates ShareHistory::rates() const {
    if (points_.size() < 2) return {};
    const Point& from = points_.front();
    const Point& to = points_.back();
    const double seconds =
        static_cast<double>(to.time_ns - from.time_ns) / static_cast<double>(second_ns);
    const auto rate = [&](Count count, double factor) {
        const auto grown = static_cast<double>(to.totals.*count - from.totals.*count);
        return static_cast<std::int64_t>(grown / seconds * factor + 0.5);
    };
    return {.launches = rate(&LedgerCounts::launches, 1),
            .denied = rate(&LedgerCounts::denied, 1),
            .busy_permille = rate(&LedgerCounts::busy_ns, 1e-6),
            .throttled_permille = rate(&LedgerCounts::throttle_ns, 1e-6)};
}

bool ShareHistory::was_active(std::uint64_t now_ns) const {
    return active_ns_ != 0 && now_ns < active_ns_ + second_ns;
}

}  // namespace drawbridge::agent
