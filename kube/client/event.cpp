#include "kube/client/event.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace drawbridge::kube::client {

namespace asio = boost::asio;

void Event::set() {
    set_ = true;
    for (asio::steady_timer& timer : waiting_)
        timer.cancel();
}

asio::awaitable<bool> Event::wait(std::chrono::steady_clock::time_point deadline) {
    if (set_) co_return true;
    const auto own = waiting_.emplace(waiting_.end(), executor_, deadline);
    co_await own->async_wait(asio::as_tuple(asio::use_awaitable));
    waiting_.erase(own);
    co_return set_;
}

}  // namespace drawbridge::kube::client
