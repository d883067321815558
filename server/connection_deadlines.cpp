#include "server/connection_deadlines.hpp"

#include <boost/system/error_code.hpp>

namespace drawbridge::server {

using boost::system::error_code;

ConnectionDeadlines::ConnectionDeadlines(const boost::asio::any_io_executor& executor)
    : timer_(executor) {}

ConnectionDeadlines::Entry::Entry(ConnectionDeadlines& owner, boost::asio::ip::tcp::socket& socket)
    : owner_(owner), socket_(socket), place_(owner.entries_.insert(owner.entries_.end(), this)) {
    owner_.arm();
}

ConnectionDeadlines::Entry::~Entry() {
    owner_.entries_.erase(place_);
}

void ConnectionDeadlines::Entry::limit(std::chrono::nanoseconds time) {
    deadline_ = std::chrono::steady_clock::now() + time;
    idle_ = false;
    expired_ = false;
}

void ConnectionDeadlines::Entry::idle(std::chrono::nanoseconds time) {
    limit(owner_.closing_idle_ ? std::chrono::nanoseconds{0} : time);
    idle_ = true;
}

void ConnectionDeadlines::Entry::none() {
    deadline_ = Time::max();
    idle_ = false;
}

void ConnectionDeadlines::Entry::expire() {
    deadline_ = Time::max();
    expired_ = true;
    error_code ignored;
    socket_.cancel(ignored);
}

void ConnectionDeadlines::arm() {
    if (armed_ || entries_.empty()) return;
    armed_ = true;
    timer_.expires_after(granularity);
    timer_.async_wait([this](const error_code& error) {
        armed_ = false;
        if (error) return;
        look_through();
        arm();
    });
}

void ConnectionDeadlines::look_through() {
    const Time now = std::chrono::steady_clock::now();
    for (Entry* const entry : entries_) {
        if (entry->deadline_ <= now) entry->expire();
    }
}

void ConnectionDeadlines::close_idle() {
    closing_idle_ = true;
    for (Entry* const entry : entries_) {
        if (entry->idle_) entry->expire();
    }
}

}  // namespace drawbridge::server
