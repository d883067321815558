#pragma once
// The operator port, on a thread of its own so that it answers when the admission port is busy.

#include "base/result.hpp"
#include "server/operator_routes.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <thread>

namespace drawbridge::server {

/// Plain HTTP for probes, scrapers and people. Serves until it is destroyed.
class AdminServer {
public:
    explicit AdminServer(OperatorParts parts);
    AdminServer(const AdminServer&) = delete;
    AdminServer& operator=(const AdminServer&) = delete;
    ~AdminServer();

    /// Opens the port and starts the thread.
    [[nodiscard]] base::Result<void> start(const boost::asio::ip::tcp::endpoint& endpoint);
    /// The port in fact, where 0 was asked for.
    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    boost::asio::awaitable<void> accept_all();
    boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket);

    OperatorParts parts_;
    boost::asio::io_context io_{1};
    boost::asio::ip::tcp::acceptor acceptor_{io_};
    std::uint16_t port_ = 0;
    std::size_t open_ = 0;
    std::thread thread_;
};

}  // namespace drawbridge::server
