#pragma once
// The time limits of connections: each step of a connection has one, and this is where it ends.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>
#include <list>

namespace drawbridge::server {

/// How long each step of a connection may take. An API server keeps idle connections for 90 s, so
/// ours live longer: else its next request could meet our close (style.md Part 4).
struct ConnectionTimes {
    std::chrono::nanoseconds handshake = std::chrono::seconds{5};
    std::chrono::nanoseconds head = std::chrono::seconds{5};
    std::chrono::nanoseconds body = std::chrono::seconds{10};
    std::chrono::nanoseconds write = std::chrono::seconds{10};
    std::chrono::nanoseconds idle = std::chrono::seconds{120};
};

/// The connections of one thread, looked through a few times a second: one timer for all of them,
/// and a deadline is one store. All calls on that thread.
class ConnectionDeadlines {
public:
    using Time = std::chrono::steady_clock::time_point;
    static constexpr std::chrono::milliseconds granularity{50};

    explicit ConnectionDeadlines(const boost::asio::any_io_executor& executor);

    /// One connection's place in the list, while it lives.
    class Entry {
    public:
        Entry(ConnectionDeadlines& owner, boost::asio::ip::tcp::socket& socket);
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;
        ~Entry();

        /// The step that begins now may take `time`; when it is over, what the socket waits for
        /// fails and `expired()` is true.
        void limit(std::chrono::nanoseconds time);
        /// Like `limit`, in a pause between two requests: `close_idle` ends it at once.
        void idle(std::chrono::nanoseconds time);
        /// The socket waits for nothing now.
        void none();
        [[nodiscard]] bool expired() const { return expired_; }

    private:
        friend class ConnectionDeadlines;
        void expire();

        ConnectionDeadlines& owner_;
        boost::asio::ip::tcp::socket& socket_;
        Time deadline_ = Time::max();
        bool idle_ = false;
        bool expired_ = false;
        std::list<Entry*>::iterator place_;
    };

    /// From now on nobody waits for another request: ends pauses, those to come as well.
    void close_idle();

private:
    void arm();
    void look_through();

    boost::asio::steady_timer timer_;
    std::list<Entry*> entries_;
    bool armed_ = false;
    bool closing_idle_ = false;
};

}  // namespace drawbridge::server
