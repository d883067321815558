#include "kube/client/http_transport.hpp"

#include "base/version.hpp"
#include "kube/client/resolve.hpp"
#include "kube/client/tls_context.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <list>
#include <netinet/tcp.h>
#include <optional>
#include <set>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <variant>
#include <vector>

namespace drawbridge::kube::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using base::ErrorKind;
using base::Result;
using boost::system::error_code;
using std::chrono::steady_clock;

constexpr auto no_throw = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t most_idle = 4;
constexpr std::chrono::seconds longest_idle(
    60);  // below the 90 s and more after which API servers hang up
constexpr std::uint32_t largest_head = 32U << 10U;

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;
using StreamParser = http::response_parser<http::buffer_body>;

/// One connection.
struct Wire {
    std::shared_ptr<asio::ssl::context> context;  ///< none: plain
    std::variant<PlainStream, TlsStream> stream;
    beast::flat_buffer buffer{1U << 17U};
    steady_clock::time_point idle_since = {};

    explicit Wire(const asio::any_io_executor& executor)
        : stream(std::in_place_type<PlainStream>, executor) {}
    Wire(const asio::any_io_executor& executor, std::shared_ptr<asio::ssl::context> tls)
        : context(std::move(tls)), stream(std::in_place_type<TlsStream>, executor, *context) {}

    [[nodiscard]] PlainStream& lowest() {
        if (auto* plain = std::get_if<PlainStream>(&stream)) return *plain;
        return beast::get_lowest_layer(std::get<TlsStream>(stream));
    }
    void hang_up() {
        error_code ignored;
        lowest().socket().close(ignored);
    }
};

/// Finds peers that vanished without a word while a watch is silent: gone after about a minute.
void keep_alive(tcp::socket& socket) {
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const std::array<std::pair<int, int>, 3> options = {
        {{TCP_KEEPIDLE, 30}, {TCP_KEEPINTVL, 10}, {TCP_KEEPCNT, 3}}};
    for (const auto& [option, value] : options) {
        ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
    }
}

template <class Message>
asio::awaitable<error_code> write_message(Wire& wire, Message& message) {
    error_code failure;
    if (auto* tls = std::get_if<TlsStream>(&wire.stream)) {
        std::tie(failure, std::ignore) = co_await http::async_write(*tls, message, no_throw);
    } else {
        auto& plain = std::get<PlainStream>(wire.stream);
        std::tie(failure, std::ignore) = co_await http::async_write(plain, message, no_throw);
    }
    co_return failure;
}

asio::awaitable<error_code> read_head(Wire& wire, StreamParser& parser) {
    error_code failure;
    if (auto* tls = std::get_if<TlsStream>(&wire.stream)) {
        std::tie(failure, std::ignore) =
            co_await http::async_read_header(*tls, wire.buffer, parser, no_throw);
    } else {
        auto& plain = std::get<PlainStream>(wire.stream);
        std::tie(failure, std::ignore) =
            co_await http::async_read_header(plain, wire.buffer, parser, no_throw);
    }
    co_return failure;
}

/// The next bytes of the body; none and no failure at its end.
asio::awaitable<error_code> read_piece(Wire& wire, StreamParser& parser, std::string& piece) {
    std::array<char, 8192> space{};
    piece.clear();
    while (piece.empty() && !parser.is_done()) {
        parser.get().body() = {space.data(), space.size(), true};
        error_code failure;
        if (auto* tls = std::get_if<TlsStream>(&wire.stream)) {
            std::tie(failure, std::ignore) =
                co_await http::async_read_some(*tls, wire.buffer, parser, no_throw);
        } else {
            auto& plain = std::get<PlainStream>(wire.stream);
            std::tie(failure, std::ignore) =
                co_await http::async_read_some(plain, wire.buffer, parser, no_throw);
        }
        piece.assign(space.data(), space.size() - parser.get().body().size);
        if (failure && failure != http::error::need_buffer) co_return failure;
    }
    co_return error_code();
}

std::optional<std::chrono::seconds> retry_after(const StreamParser& parser) {
    const auto text = parser.get()[http::field::retry_after];
    int value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size() || value < 0)
        return std::nullopt;
    return std::chrono::seconds(value);
}

http::request<http::string_body> make_request(const Endpoint& endpoint, ApiCall& call) {
    http::request<http::string_body> request;
    request.method_string(call.method);
    request.target(endpoint.base_path + call.target);
    request.version(11);
    const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
    request.set(http::field::host, is_ipv6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                                           : fmt::format("{}:{}", endpoint.host, endpoint.port));
    request.set(http::field::user_agent, fmt::format("drawbridge/{}", base::version));
    request.set(http::field::accept, "application/json");
    if (!call.access->token.empty()) {
        request.set(http::field::authorization, "Bearer " + call.access->token);
    }
    if (!call.body.empty()) {
        request.set(http::field::content_type, "application/json");
        request.body() = std::move(call.body);
    }
    request.prepare_payload();
    return request;
}

class Transport;

/// A wire in use, known to the transport so that `close` reaches it.
class WireLease {
public:
    WireLease(std::shared_ptr<Transport> owner, std::unique_ptr<Wire> wire);
    WireLease(WireLease&& other) noexcept = default;
    WireLease& operator=(WireLease&& other) = delete;
    ~WireLease();

    [[nodiscard]] Wire& operator*() const { return *wire_; }
    [[nodiscard]] Wire* operator->() const { return wire_.get(); }
    /// Gives the wire back for the next call.
    void keep();

private:
    std::shared_ptr<Transport> owner_;
    std::unique_ptr<Wire> wire_;
};

/// How far an attempt came before it failed.
struct Failure {
    base::Error error;
    bool answer_begun = false;
};

class Transport : public std::enable_shared_from_this<Transport> {
public:
    Transport(asio::any_io_executor executor, Endpoint endpoint)
        : executor_(std::move(executor)), endpoint_(std::move(endpoint)) {}

    asio::awaitable<Result<ApiAnswer>> call(ApiCall call);
    asio::awaitable<Result<OpenedStream>> open(ApiCall call);
    void close();

    void joined(Wire* wire) { in_use_.insert(wire); }
    void left(Wire* wire) { in_use_.erase(wire); }
    void park(std::unique_ptr<Wire> wire);
    [[nodiscard]] base::Error describe(error_code failure, Wire& wire) const;

private:
    asio::awaitable<Result<WireLease>> connect(const ApiCall& call);
    asio::awaitable<Result<void>> handshake(Wire& wire);
    Result<void> follow(const Access& access);
    std::unique_ptr<Wire> unpark();
    asio::awaitable<tl::expected<ApiAnswer, Failure>> exchange(WireLease& wire, ApiCall call);
    [[nodiscard]] base::Error error(ErrorKind kind, std::string_view what) const {
        return {kind, fmt::format("{}: {}", endpoint_.text(), what), {}};
    }

    asio::any_io_executor executor_;
    Endpoint endpoint_;
    Access followed_;  ///< what context_ was made from; the token does not matter
    std::shared_ptr<asio::ssl::context> context_;
    std::list<std::unique_ptr<Wire>> idle_;  ///< the one used last at the end
    std::set<Wire*> in_use_;
    bool closed_ = false;
};

WireLease::WireLease(std::shared_ptr<Transport> owner, std::unique_ptr<Wire> wire)
    : owner_(std::move(owner)), wire_(std::move(wire)) {
    owner_->joined(wire_.get());
}

WireLease::~WireLease() {
    if (wire_) owner_->left(wire_.get());
}

void WireLease::keep() {
    owner_->left(wire_.get());
    owner_->park(std::move(wire_));
}

void Transport::park(std::unique_ptr<Wire> wire) {
    if (closed_ || wire->context != context_) return;
    wire->lowest().expires_never();
    wire->idle_since = steady_clock::now();
    idle_.push_back(std::move(wire));
    if (idle_.size() > most_idle) idle_.pop_front();
}

std::unique_ptr<Wire> Transport::unpark() {
    const auto oldest = steady_clock::now() - longest_idle;
    std::erase_if(idle_, [&](const auto& wire) { return wire->idle_since < oldest; });
    if (idle_.empty()) return nullptr;
    auto wire = std::move(idle_.back());
    idle_.pop_back();
    return wire;
}

void Transport::close() {
    closed_ = true;
    idle_.clear();
    for (Wire* wire : in_use_)
        wire->hang_up();
}

/// Makes the TLS context anew when certificates have changed; connections made with the old one are
/// not used again.
Result<void> Transport::follow(const Access& access) {
    if (!endpoint_.tls) return {};
    if (context_ && followed_.authorities == access.authorities &&
        followed_.certificate == access.certificate && followed_.key == access.key) {
        return {};
    }
    auto context = client_context(access);
    if (!context) return tl::unexpected(context.error());
    context_ = std::move(*context);
    followed_ = access;
    followed_.token.clear();
    idle_.clear();
    return {};
}

base::Error Transport::describe(error_code failure, Wire& wire) const {
    if (closed_) return error(ErrorKind::unavailable, "this process is ending");
    if (failure == beast::error::timeout) return error(ErrorKind::timed_out, "no answer in time");
    if (failure == http::error::end_of_stream || failure == asio::error::eof ||
        failure == http::error::partial_message || failure == asio::ssl::error::stream_truncated) {
        return error(ErrorKind::unavailable,
                     "the connection was closed before the answer was whole");
    }
    if (failure == http::error::body_limit)
        return error(ErrorKind::unavailable, "the answer is too large");
    if (auto* tls = std::get_if<TlsStream>(&wire.stream)) {
        const std::string unverified = verify_failure(tls->native_handle());
        if (!unverified.empty()) {
            return error(ErrorKind::unavailable, "its certificate is not trusted: " + unverified);
        }
    }
    return error(ErrorKind::unavailable, failure.message());
}

asio::awaitable<Result<void>> Transport::handshake(Wire& wire) {
    auto* tls = std::get_if<TlsStream>(&wire.stream);
    if (tls == nullptr) co_return Result<void>();
    const std::string& name =
        endpoint_.server_name.empty() ? endpoint_.host : endpoint_.server_name;
    if (auto ready = prepare_handshake(tls->native_handle(), name, endpoint_.skip_verify); !ready) {
        co_return tl::unexpected(ready.error());
    }
    const auto [failure] = co_await tls->async_handshake(asio::ssl::stream_base::client, no_throw);
    if (failure) co_return tl::unexpected(describe(failure, wire));
    co_return Result<void>();
}

asio::awaitable<Result<WireLease>> Transport::connect(const ApiCall& call) {
    auto addresses = co_await resolve(executor_, endpoint_.host, endpoint_.port, call.deadline);
    if (!addresses) co_return tl::unexpected(addresses.error());
    if (closed_) co_return tl::unexpected(error(ErrorKind::unavailable, "this process is ending"));
    WireLease wire(shared_from_this(), endpoint_.tls ? std::make_unique<Wire>(executor_, context_)
                                                     : std::make_unique<Wire>(executor_));
    wire->lowest().expires_at(call.deadline);
    const auto [failure, endpoint] = co_await wire->lowest().async_connect(*addresses, no_throw);
    if (failure) co_return tl::unexpected(describe(failure, *wire));
    keep_alive(wire->lowest().socket());
    if (auto shaken = co_await handshake(*wire); !shaken) co_return tl::unexpected(shaken.error());
    co_return wire;
}

asio::awaitable<tl::expected<ApiAnswer, Failure>> Transport::exchange(WireLease& wire,
                                                                      ApiCall call) {
    wire->lowest().expires_at(call.deadline);
    auto request = make_request(endpoint_, call);
    const auto fail = [&](error_code failure, bool begun) {
        return tl::unexpected(Failure{describe(failure, *wire), begun});
    };
    if (const auto failure = co_await write_message(*wire, request)) co_return fail(failure, false);
    StreamParser parser;
    parser.header_limit(largest_head);
    parser.body_limit(call.max_answer);
    if (const auto failure = co_await read_head(*wire, parser)) {
        co_return fail(failure, parser.got_some());
    }
    ApiAnswer answer{static_cast<int>(parser.get().result_int()), {}, retry_after(parser)};
    std::string piece;
    do {
        if (const auto failure = co_await read_piece(*wire, parser, piece))
            co_return fail(failure, true);
        answer.body += piece;
    } while (!piece.empty());
    if (parser.keep_alive()) wire.keep();
    co_return answer;
}

asio::awaitable<Result<ApiAnswer>> Transport::call(ApiCall call) {
    if (closed_) co_return tl::unexpected(error(ErrorKind::unavailable, "this process is ending"));
    if (auto followed = follow(*call.access); !followed) co_return tl::unexpected(followed.error());
    if (auto parked = unpark()) {
        WireLease wire(shared_from_this(), std::move(parked));
        auto answer = co_await exchange(wire, call);
        if (answer) co_return std::move(*answer);
        // The server may have closed the idle connection just before we wrote; then a new one
        // serves.
        const bool again = call.repeatable && !answer.error().answer_begun && !closed_ &&
                           answer.error().error.kind != ErrorKind::timed_out;
        if (!again) co_return tl::unexpected(answer.error().error);
    }
    auto wire = co_await connect(call);
    if (!wire) co_return tl::unexpected(wire.error());
    auto answer = co_await exchange(*wire, std::move(call));
    if (!answer) co_return tl::unexpected(answer.error().error);
    co_return std::move(*answer);
}

/// A body read piece by piece on a connection of its own.
class BodyStream final : public ApiStream {
public:
    BodyStream(std::shared_ptr<Transport> owner, WireLease wire,
               std::unique_ptr<StreamParser> parser)
        : owner_(std::move(owner)), wire_(std::move(wire)), parser_(std::move(parser)) {}

    asio::awaitable<Result<std::string>> read(steady_clock::time_point deadline) override {
        wire_->lowest().expires_at(deadline);
        std::string piece;
        if (const auto failure = co_await read_piece(*wire_, *parser_, piece)) {
            co_return tl::unexpected(owner_->describe(failure, *wire_));
        }
        co_return piece;
    }
    void close() override { wire_->hang_up(); }

private:
    std::shared_ptr<Transport> owner_;
    WireLease wire_;
    std::unique_ptr<StreamParser> parser_;
};

asio::awaitable<Result<OpenedStream>> Transport::open(ApiCall call) {
    if (closed_) co_return tl::unexpected(error(ErrorKind::unavailable, "this process is ending"));
    if (auto followed = follow(*call.access); !followed) co_return tl::unexpected(followed.error());
    auto wire = co_await connect(call);
    if (!wire) co_return tl::unexpected(wire.error());
    auto request = make_request(endpoint_, call);
    if (const auto failure = co_await write_message(**wire, request)) {
        co_return tl::unexpected(describe(failure, **wire));
    }
    auto parser = std::make_unique<StreamParser>();
    parser->header_limit(largest_head);
    parser->body_limit(boost::none);
    if (const auto failure = co_await read_head(**wire, *parser)) {
        co_return tl::unexpected(describe(failure, **wire));
    }
    OpenedStream opened{{static_cast<int>(parser->get().result_int()), {}, retry_after(*parser)},
                        nullptr};
    if (opened.answer.status == 200) {
        opened.stream =
            std::make_unique<BodyStream>(shared_from_this(), std::move(*wire), std::move(parser));
        co_return opened;
    }
    constexpr std::size_t largest_refusal = 64U << 10U;
    std::string piece;
    do {
        if (co_await read_piece(**wire, *parser, piece)) break;  // the status alone says enough
        opened.answer.body += piece;
    } while (!piece.empty() && opened.answer.body.size() < largest_refusal);
    co_return opened;
}

/// What callers hold; the work itself is shared with calls that are still open.
class HttpTransport final : public ApiTransport {
public:
    explicit HttpTransport(std::shared_ptr<Transport> work) : work_(std::move(work)) {}
    ~HttpTransport() override { work_->close(); }

    asio::awaitable<Result<ApiAnswer>> call(ApiCall call) override {
        return work_->call(std::move(call));
    }
    asio::awaitable<Result<OpenedStream>> open(ApiCall call) override {
        return work_->open(std::move(call));
    }
    void close() override { work_->close(); }

private:
    std::shared_ptr<Transport> work_;
};

}  // namespace

std::unique_ptr<ApiTransport> make_http_transport(asio::any_io_executor executor,
                                                  Endpoint endpoint) {
    return std::make_unique<HttpTransport>(
        std::make_shared<Transport>(std::move(executor), std::move(endpoint)));
}

}  // namespace drawbridge::kube::client
