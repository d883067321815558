#pragma once
// Bounds how many coroutines of one strand do something at once; the others wait in order.

#include "kube/client/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <utility>

namespace drawbridge::kube::client {

/// All calls on one strand. Outlives its turns, and whoever waits for one.
class Turns {
public:
    /// One of those at work, for as long as it lives.
    class Turn {
    public:
        explicit Turn(Turns& turns) : turns_(&turns) {}
        Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
        Turn& operator=(Turn&&) = delete;
        ~Turn() {
            if (turns_ != nullptr) turns_->pass_on();
        }

    private:
        Turns* turns_;
    };

    Turns(boost::asio::any_io_executor executor, std::size_t most)
        : executor_(std::move(executor)), free_(most) {}

    /// Nothing where the deadline came first.
    [[nodiscard]] boost::asio::awaitable<std::optional<Turn>> take(
        std::chrono::steady_clock::time_point deadline);
    /// Bounds nothing any more: whoever waits goes on now.
    void open();

private:
    void pass_on();

    boost::asio::any_io_executor executor_;
    std::size_t free_;
    std::list<std::shared_ptr<Event>> waiting_;
};

}  // namespace drawbridge::kube::client
