#include "server/https_session.hpp"

#include "base/log.hpp"
#include "server/router.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <algorithm>
#include <exception>
#include <malloc.h>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace drawbridge::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::awaitable;
using boost::system::error_code;

using Parser = http::request_parser<http::string_body>;

constexpr std::size_t read_size = 16U << 10U;  // one TLS record
constexpr std::size_t kept_capacity = 64U << 10U;
constexpr std::chrono::seconds goodbye_time{1};
constexpr std::size_t goodbye_bytes = 8U << 20U;
constexpr std::int64_t worth_a_trim = 2 << 20;

std::string_view view(boost::beast::string_view text) {
    return {text.data(), text.size()};
}

/// Memory of one large body, given back at its end.
class BodyShare {
public:
    BodyShare(std::atomic<std::int64_t>& total, const RequestLimits& limits)
        : total_(total), limits_(limits) {}
    BodyShare(const BodyShare&) = delete;
    BodyShare& operator=(const BodyShare&) = delete;
    ~BodyShare() {
        total_ -= taken_;
        // What a large review needed goes back to the system: the next one may be hours away.
        if (taken_ > worth_a_trim) malloc_trim(0);
    }

    /// The body has `size` bytes now; false where there is no more room for it.
    [[nodiscard]] bool grow(std::size_t size) {
        const auto bytes = static_cast<std::int64_t>(size);
        if (bytes <= limits_.small_body || bytes <= taken_) return true;
        const std::int64_t more = bytes - taken_;
        taken_ = bytes;
        return (total_ += more) <= limits_.large_bodies;
    }

private:
    std::atomic<std::int64_t>& total_;
    const RequestLimits& limits_;
    std::int64_t taken_ = 0;
};

/// What a fault of the parser is in HTTP.
HttpAnswer answer_to(const error_code& error) {
    if (error == http::error::header_limit) return failure(431, "the head is over 16 KiB");
    if (error == http::error::body_limit) return failure(413, "the body is over 7 MiB");
    return failure(400, "no HTTP/1.1 request: " + error.message());
}

// g++ 12 makes wrong code of co_await inside conditions and ?:, so each stands in a statement
// alone.
class Session {
public:
    Session(asio::ip::tcp::socket socket, SSL* tls, SessionParts& parts,
            ConnectionDeadlines& deadlines)
        : stream_(std::move(socket), tls),
          parts_(parts),
          deadline_(deadlines, stream_.next_layer()) {}

    awaitable<void> run();

private:
    /// Whether the connection goes on.
    enum class Next { go_on, end };

    awaitable<bool> handshake();
    awaitable<bool> read_some();
    awaitable<Next> serve_one();
    awaitable<std::optional<HttpAnswer>> read_head(Parser& parser);
    awaitable<std::optional<HttpAnswer>> read_body(Parser& parser, BodyShare& share);
    awaitable<bool> allow_body(const Parser& parser);
    awaitable<HttpAnswer> answer(Parser& parser);
    awaitable<bool> send(const HttpAnswer& answer, bool close);
    awaitable<bool> send_out();
    awaitable<void> say_goodbye();

    asio::ssl::stream<asio::ip::tcp::socket> stream_;
    SessionParts& parts_;
    ConnectionDeadlines::Entry deadline_;
    boost::beast::flat_buffer buffer_;
    std::string out_;
    bool broken_ = false;  ///< the other side is gone; there is nobody to answer
};

awaitable<bool> Session::handshake() {
    deadline_.limit(parts_.times.handshake);
    error_code error;
    co_await stream_.async_handshake(asio::ssl::stream_base::server,
                                     asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
}

/// Adds what has come to the buffer; false where nothing more will come in time.
awaitable<bool> Session::read_some() {
    error_code error;
    const std::size_t count = co_await stream_.async_read_some(
        buffer_.prepare(read_size), asio::redirect_error(asio::use_awaitable, error));
    buffer_.commit(count);
    if (error && !deadline_.expired()) broken_ = true;
    co_return !error;
}

/// Reads until the head is whole. An answer means that there will be no request.
awaitable<std::optional<HttpAnswer>> Session::read_head(Parser& parser) {
    for (;;) {
        error_code error;
        buffer_.consume(parser.put(buffer_.data(), error));
        if (parser.is_header_done()) co_return std::nullopt;
        if (error && error != http::error::need_more) co_return answer_to(error);
        const bool more = co_await read_some();
        if (!more) co_return failure(408, "the head took too long");
    }
}

/// Answers `Expect: 100-continue`; false where the client expects something else.
awaitable<bool> Session::allow_body(const Parser& parser) {
    const auto& message = parser.get();
    const auto expected = message[http::field::expect];
    if (expected.empty() || message.version() < 11) co_return true;
    if (!boost::beast::iequals(expected, "100-continue")) co_return false;
    if (buffer_.size() > 0) co_return true;
    out_ = "HTTP/1.1 100 Continue\r\n\r\n";
    co_await send_out();
    co_return true;
}

/// Reads until the body is whole.
awaitable<std::optional<HttpAnswer>> Session::read_body(Parser& parser, BodyShare& share) {
    parser.eager(true);
    while (!parser.is_done()) {
        error_code error;
        if (buffer_.size() > 0) {
            buffer_.consume(parser.put(buffer_.data(), error));
            if (error && error != http::error::need_more) co_return answer_to(error);
            if (!share.grow(parser.get().body().size())) {
                co_return failure(503, "too many large requests at once");
            }
            if (parser.is_done()) break;
            if (error != http::error::need_more) continue;
        }
        const bool more = co_await read_some();
        if (!more) co_return failure(408, "the body took too long");
    }
    co_return std::nullopt;
}

/// The answer to a request whose head is there.
awaitable<HttpAnswer> Session::answer(Parser& parser) {
    const auto& message = parser.get();
    if (message.version() >= 11 && message.count(http::field::host) != 1) {
        co_return failure(400, "no HTTP/1.1 request: it must have one Host field");
    }
    auto routed = route({.method = view(message.method_string()),
                         .target = view(message.target()),
                         .content_type = view(message[http::field::content_type])});
    if (auto* const misrouted = std::get_if<HttpAnswer>(&routed)) co_return std::move(*misrouted);
    const auto answer_by = std::chrono::steady_clock::now() + std::get<ReviewRoute>(routed).time;
    deadline_.limit(parts_.times.body);
    const bool allowed = co_await allow_body(parser);
    if (!allowed) co_return failure(417, "only 100-continue can be expected");
    BodyShare share(parts_.large_bytes, parts_.limits);
    auto refused = co_await read_body(parser, share);
    if (refused) co_return std::move(*refused);
    deadline_.none();  // the endpoint bounds its own calls
    co_return co_await parts_.endpoint.handle(std::move(parser.get().body()), answer_by);
}

awaitable<Session::Next> Session::serve_one() {
    if (buffer_.size() == 0) {
        deadline_.idle(parts_.times.idle);
        const bool more = co_await read_some();
        if (!more) co_return Next::end;
    }
    Parser parser;
    parser.header_limit(parts_.limits.head);
    parser.body_limit(parts_.limits.body);
    deadline_.limit(parts_.times.head);
    auto reply = co_await read_head(parser);
    if (!reply) reply = co_await answer(parser);
    if (broken_) co_return Next::end;
    if (reply->status != 200) parts_.metrics.count_http_failure(reply->status);
    // Only after a whole request it is known where the next one begins.
    const bool close = parts_.leaving || !parser.is_done() || !parser.get().keep_alive();
    const bool sent = co_await send(*reply, close);
    co_return sent && !close ? Next::go_on : Next::end;
}

awaitable<bool> Session::send(const HttpAnswer& answer, bool close) {
    out_.clear();
    append_http(out_, answer, close);
    const bool sent = co_await send_out();
    if (out_.capacity() > kept_capacity) std::string().swap(out_);
    co_return sent;
}

awaitable<bool> Session::send_out() {
    deadline_.limit(parts_.times.write);
    error_code error;
    co_await asio::async_write(stream_, asio::buffer(out_),
                               asio::redirect_error(asio::use_awaitable, error));
    if (error) broken_ = true;
    co_return !error;
}

/// Ends the connection so that the last answer arrives: a socket closed while bytes of the other
/// side are unread resets it, and the answer may be lost. So take what still comes, for a moment.
awaitable<void> Session::say_goodbye() {
    deadline_.limit(goodbye_time);
    error_code error;
    co_await stream_.async_shutdown(asio::redirect_error(asio::use_awaitable, error));
    auto& socket = stream_.next_layer();
    error_code ignored;
    socket.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    if (error == asio::error::eof) co_return;
    std::size_t taken = 0;
    while (taken < goodbye_bytes && !deadline_.expired()) {
        buffer_.clear();
        const std::size_t count = co_await socket.async_read_some(
            buffer_.prepare(read_size), asio::redirect_error(asio::use_awaitable, error));
        if (error) co_return;
        taken += count;
    }
}

awaitable<void> Session::run() {
    const bool secured = co_await handshake();
    if (!secured) co_return;
    Next next = Next::go_on;
    while (next == Next::go_on)
        next = co_await serve_one();
    if (!broken_) co_await say_goodbye();
}

}  // namespace

awaitable<void> serve_connection(asio::ip::tcp::socket socket, TlsIdentity identity,
                                 SessionParts& parts, ConnectionDeadlines& deadlines) {
    try {
        error_code ignored;
        socket.set_option(asio::ip::tcp::no_delay(true), ignored);
        SSL* const tls = SSL_new(identity.get());  // keeps the identity; the stream frees it
        if (tls == nullptr) co_return;
        Session session(std::move(socket), tls, parts, deadlines);
        co_await session.run();
    } catch (const std::exception& error) {
        base::log_event(base::Level::error, "connection", {{"reason", error.what()}});
    }
}

}  // namespace drawbridge::server
