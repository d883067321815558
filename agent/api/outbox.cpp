#include "agent/api/outbox.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace drawbridge::agent {
namespace {

std::size_t digest_of(const Notice& notice) {
    return std::hash<std::string>()(notice.method + '\n' + notice.target + '\n' + notice.body);
}

}  // namespace

void Outbox::put(Notice notice, Time due, Time latest) {
    const auto waiting = entries_.find(notice.key);
    if (waiting != entries_.end()) {
        if (waiting->second.notice == notice) return;
        waiting->second = {
            .notice = std::move(notice), .number = ++numbers_, .due = due, .latest = latest};
        return;
    }
    const auto before = delivered_.find(notice.key);
    if (before != delivered_.end() && before->second == digest_of(notice)) return;
    if (entries_.size() >= most_waiting) {
        const auto number = [](const auto& entry) { return entry.second.number; };
        entries_.erase(std::ranges::min_element(entries_, {}, number));
        ++overflown_;
    }
    std::string key = notice.key;
    entries_.emplace(
        std::move(key),
        Entry{.notice = std::move(notice), .number = ++numbers_, .due = due, .latest = latest});
}

void Outbox::hold(NoticeKind kind, Time until) {
    for (auto& [key, entry] : entries_) {
        if (entry.notice.kind != kind) continue;
        entry.due = std::max(entry.due, std::min(until, entry.latest));
    }
}

void Outbox::forget(std::string_view key) {
    if (const auto found = entries_.find(key); found != entries_.end()) entries_.erase(found);
    // The key's place in the order stays; it goes with the oldest.
    if (const auto found = delivered_.find(key); found != delivered_.end()) delivered_.erase(found);
}

std::optional<Outbox::Turn> Outbox::next(Time now) const {
    const Entry* first = nullptr;
    for (const auto& [key, entry] : entries_) {
        if (entry.due > now) continue;
        if (first == nullptr || entry.number < first->number) first = &entry;
    }
    if (first == nullptr) return std::nullopt;
    return Turn{first->notice, first->number, first->failures};
}

std::optional<Outbox::Time> Outbox::due() const {
    std::optional<Time> earliest;
    for (const auto& [key, entry] : entries_) {
        if (!earliest || entry.due < *earliest) earliest = entry.due;
    }
    return earliest;
}

Outbox::Entry* Outbox::current(const Turn& turn) {
    const auto found = entries_.find(turn.notice.key);
    return found != entries_.end() && found->second.number == turn.number ? &found->second
                                                                          : nullptr;
}

void Outbox::end(const Turn& turn, Delivery delivery) {
    if (current(turn) == nullptr) return;
    entries_.erase(turn.notice.key);
    if (delivery == Delivery::done) remember(turn.notice);
}

void Outbox::remember(const Notice& notice) {
    if (!delivered_.insert_or_assign(notice.key, digest_of(notice)).second) return;
    delivered_order_.push_back(notice.key);
    while (delivered_order_.size() > most_delivered) {
        delivered_.erase(delivered_order_.front());
        delivered_order_.pop_front();
    }
}

}  // namespace drawbridge::agent
