#include "kube/client/turns.hpp"

#include <limits>

namespace drawbridge::kube::client {

namespace asio = boost::asio;

asio::awaitable<std::optional<Turns::Turn>> Turns::take(
    std::chrono::steady_clock::time_point deadline) {
    if (free_ > 0) {
        --free_;
        co_return std::optional<Turn>(std::in_place, *this);
    }
    const auto called = std::make_shared<Event>(executor_);
    const auto own = waiting_.insert(waiting_.end(), called);
    if (co_await called->wait(deadline)) co_return std::optional<Turn>(std::in_place, *this);
    waiting_.erase(own);
    co_return std::nullopt;
}

/// The turn that ends becomes that of who has waited longest.
void Turns::pass_on() {
    if (waiting_.empty()) {
        ++free_;
        return;
    }
    waiting_.front()->set();
    waiting_.pop_front();
}

void Turns::open() {
    for (const auto& called : std::exchange(waiting_, {}))
        called->set();
    free_ = std::numeric_limits<std::size_t>::max() / 2;
}

}  // namespace drawbridge::kube::client
