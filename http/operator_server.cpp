#include "http/operator_server.hpp"

#include "base/log.hpp"
#include "http/open_port.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include <exception>
#include <string>
#include <utility>

namespace drawbridge::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;

constexpr std::size_t max_open = 128;
constexpr std::uint32_t max_head = 8U << 10U;
constexpr std::uint64_t max_body = 1U << 10U;
constexpr std::chrono::seconds idle_time{30};
constexpr std::chrono::seconds write_time{10};

std::string_view view(beast::string_view text) {
    return {text.data(), text.size()};
}

void log_failure(const std::exception_ptr& failure) {
    if (!failure) return;
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        base::log_event(base::Level::error, "operator_port", {{"reason", error.what()}});
    }
}

}  // namespace

OperatorServer::OperatorServer(Handler handler) : handler_(std::move(handler)) {}

OperatorServer::~OperatorServer() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
}

base::Result<void> OperatorServer::start(const asio::ip::tcp::endpoint& endpoint) {
    if (auto opened = open_port(acceptor_, endpoint); !opened) return opened;
    port_ = acceptor_.local_endpoint().port();
    asio::co_spawn(io_, accept_all(), log_failure);
    thread_ = std::thread([this] { io_.run(); });
    return {};
}

asio::awaitable<void> OperatorServer::accept_all() {
    for (;;) {
        error_code error;
        auto socket =
            co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
        if (error) {
            base::log_event(base::Level::error, "operator_port", {{"reason", error.message()}});
            asio::steady_timer pause(io_, std::chrono::milliseconds{100});
            co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
            continue;
        }
        if (open_ >= max_open) continue;  // closes it
        ++open_;
        auto ended = [this](const std::exception_ptr& failure) {
            --open_;
            log_failure(failure);
        };
        asio::co_spawn(io_, serve(std::move(socket)), std::move(ended));
    }
}

asio::awaitable<void> OperatorServer::serve(asio::ip::tcp::socket socket) {
    beast::tcp_stream stream(std::move(socket));
    beast::flat_buffer buffer;
    std::string out;
    for (bool keep = true; keep;) {
        beast::http::request_parser<beast::http::string_body> parser;
        parser.header_limit(max_head);
        parser.body_limit(max_body);
        error_code error;
        stream.expires_after(idle_time);
        co_await beast::http::async_read(stream, buffer, parser,
                                         asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return;
        const auto& request = parser.get();
        keep = request.keep_alive();
        const HttpAnswer answer =
            handler_(view(request.method_string()), view(request.target()), request.body());
        out.clear();
        append_http(out, answer, !keep, request.method() != beast::http::verb::head);
        stream.expires_after(write_time);
        co_await asio::async_write(stream, asio::buffer(out),
                                   asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return;
    }
    error_code ignored;
    stream.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

}  // namespace drawbridge::http
