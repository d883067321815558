#pragma once
// What is still to be told to the API server, where it does no harm if it is late or lost: claim
// status, events, and evictions. Pure: bounded, by key, with a wait after failures.

#include "base/clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace drawbridge::agent {

enum class NoticeKind { claim_status, event, eviction };

/// One call to the API server.
struct Notice {
    NoticeKind kind = NoticeKind::event;
    std::string key = {};  ///< a later notice with the same key takes its place
    std::string method = {};
    std::string target = {};
    std::string content_type = {};
    std::string body = {};

    [[nodiscard]] bool operator==(const Notice&) const = default;
};

/// What became of one attempt: delivered; to be tried again; pointless from now on.
enum class Delivery { done, again, dropped };

/// How many attempts of a kind of notice ended how.
struct NoticeCounts {
    std::uint64_t delivered = 0;
    std::uint64_t failed = 0;   ///< to be made again
    std::uint64_t dropped = 0;  ///< given up
};

/// One thread. Time is given.
class Outbox {
public:
    using Time = base::Clock::Steady;
    /// Notices that wait at most; the oldest gives way.
    static constexpr std::size_t most_waiting = 1024;
    /// Keys of delivered notices that are remembered at most.
    static constexpr std::size_t most_delivered = 4096;

    /// A notice that takes its turn: with the number that `settle` wants.
    struct Turn {
        Notice notice;
        std::uint64_t number = 0;
        int failures = 0;  ///< in a row, before this turn
    };

    /// Takes a notice; what was delivered last under its key is not sent again, and what waits
    /// under its key is replaced. Its first attempt comes at `due`.
    void put(Notice notice, Time due) { put(std::move(notice), due, due); }
    /// The same, and `hold` may put its first attempt off, to `latest` at most.
    void put(Notice notice, Time due, Time latest);
    /// What waits of a kind has its turn at `until` at the earliest, or at its latest time.
    void hold(NoticeKind kind, Time until);
    /// Drops what waits under a key, and what is remembered of it.
    void forget(std::string_view key);
    /// The notice that has waited longest of those whose time has come; it stays until settled.
    [[nodiscard]] std::optional<Turn> next(Time now) const;
    /// When the next one's time comes; nothing where none waits.
    [[nodiscard]] std::optional<Time> due() const;
    /// Tells what became of a turn. One that was replaced or forgotten meanwhile stays so. `wait`
    /// gives the time after that many failures in a row.
    template <class Wait>
    void settle(const Turn& turn, Delivery delivery, Time now, Wait wait) {
        if (Entry* entry = current(turn); entry != nullptr && delivery == Delivery::again) {
            entry->due = now + wait(++entry->failures);
            return;
        }
        end(turn, delivery);
    }

    [[nodiscard]] std::size_t waiting() const { return entries_.size(); }
    /// Notices that gave way to others since the outbox was full.
    [[nodiscard]] std::uint64_t overflown() const { return overflown_; }

private:
    struct Entry {
        Notice notice;
        std::uint64_t number = 0;
        int failures = 0;
        Time due = {};
        Time latest = {};
    };

    [[nodiscard]] Entry* current(const Turn& turn);
    void end(const Turn& turn, Delivery delivery);
    void remember(const Notice& notice);

    std::map<std::string, Entry, std::less<>> entries_;          ///< by key
    std::map<std::string, std::size_t, std::less<>> delivered_;  ///< hash of the last, by key
    std::deque<std::string> delivered_order_;
    std::uint64_t numbers_ = 0;
    std::uint64_t overflown_ = 0;
};

}  // namespace drawbridge::agent
