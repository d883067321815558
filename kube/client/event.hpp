#pragma once
// Something that coroutines of one strand wait for, with a deadline.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <list>

namespace drawbridge::kube::client {

/// Set once, seen by all. Also a sleep that can be ended early. All calls on one strand; whoever
/// waits keeps the event alive.
class Event {
public:
    explicit Event(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

    [[nodiscard]] bool is_set() const { return set_; }
    /// Wakes everyone who waits, now and later.
    void set();
    /// True when the event is set, false when the deadline came first.
    [[nodiscard]] boost::asio::awaitable<bool> wait(std::chrono::steady_clock::time_point deadline);

private:
    boost::asio::any_io_executor executor_;
    std::list<boost::asio::steady_timer> waiting_;
    bool set_ = false;
};

}  // namespace drawbridge::kube::client
