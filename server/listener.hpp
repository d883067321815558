#pragma once
// The admission port: accepts connections and spreads them over a few threads.

#include "base/result.hpp"
#include "server/https_session.hpp"
#include "server/tls_identity.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace drawbridge::server {

/// Each connection stays on one thread, so sessions need no locks. Over `max_connections`, and
/// while there is no certificate, a new connection is closed at once: nobody waits in a queue.
class Listener {
public:
    struct Limits {
        std::size_t threads = 2;
        std::size_t max_connections = 2048;
    };

    Listener(SessionParts& parts, const TlsIdentityHolder& identity, Limits limits);
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;
    ~Listener();

    /// Opens the port; connections queue until `start`.
    [[nodiscard]] base::Result<void> listen(const boost::asio::ip::tcp::endpoint& endpoint);
    /// The port in fact, where 0 was asked for.
    [[nodiscard]] std::uint16_t port() const { return port_; }
    void start();

    /// Accepts no more, and ends connections that wait for a request. Any thread.
    void finish();
    /// Connections not yet ended. Any thread.
    [[nodiscard]] std::size_t open() const { return open_; }
    /// Ends the threads once every connection has ended; false while one is open. After `finish`.
    [[nodiscard]] bool stop();

private:
    struct Worker;

    boost::asio::awaitable<void> accept_all();
    void admit(Worker& worker, boost::asio::ip::tcp::socket socket);
    [[nodiscard]] Worker& least_loaded();

    SessionParts& parts_;
    const TlsIdentityHolder& identity_;
    Limits limits_;
    std::vector<std::unique_ptr<Worker>> workers_;
    boost::asio::ip::tcp::acceptor acceptor_;
    std::uint16_t port_ = 0;
    std::atomic<std::size_t> open_{0};
};

}  // namespace drawbridge::server
