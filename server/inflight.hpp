#pragma once
// The reviews being answered at this moment, for the operator who asks what hangs.

#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

namespace drawbridge::server {

/// Safe to use from several threads; one short lock at the beginning and the end of a review.
class Inflight {
public:
    using Time = std::chrono::steady_clock::time_point;

    /// One review from its decoding to its answer.
    class Entry {
    public:
        Entry(Inflight& registry, std::string_view uid, std::string_view name_space, Time since);
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;
        ~Entry();

    private:
        friend class Inflight;
        Inflight& registry_;
        std::string uid_;
        std::string name_space_;
        Time since_;
        std::list<const Entry*>::iterator place_;
    };

    /// `{"items":[{"uid":...,"namespace":...,"millis":...}]}`, the oldest first.
    [[nodiscard]] std::string to_json(Time now) const;

private:
    mutable std::mutex mutex_;
    std::list<const Entry*> entries_;
};

}  // namespace drawbridge::server
