#pragma once
// The operator port, on a thread of its own so that it answers when the process is busy.

#include "base/result.hpp"
#include "http/answer.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>

namespace drawbridge::http {

/// Plain HTTP for probes, scrapers and people. Serves until it is destroyed.
class OperatorServer {
public:
    /// Answers a request by method, target and body; called on the server's own thread.
    using Handler = std::function<HttpAnswer(std::string_view method, std::string_view target,
                                             std::string_view body)>;

    explicit OperatorServer(Handler handler);
    OperatorServer(const OperatorServer&) = delete;
    OperatorServer& operator=(const OperatorServer&) = delete;
    ~OperatorServer();

    /// Opens the port and starts the thread.
    [[nodiscard]] base::Result<void> start(const boost::asio::ip::tcp::endpoint& endpoint);
    /// The port in fact, where 0 was asked for.
    [[nodiscard]] std::uint16_t port() const { return port_; }

private:
    boost::asio::awaitable<void> accept_all();
    boost::asio::awaitable<void> serve(boost::asio::ip::tcp::socket socket);

    Handler handler_;
    boost::asio::io_context io_{1};
    boost::asio::ip::tcp::acceptor acceptor_{io_};
    std::uint16_t port_ = 0;
    std::size_t open_ = 0;
    std::thread thread_;
};

}  // namespace drawbridge::http
