#include "kube/client/http_wire.hpp"

#include "base/version.hpp"
#include "kube/client/tls_context.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <netinet/tcp.h>
#include <string_view>
#include <sys/socket.h>
#include <utility>
#include <variant>

namespace drawbridge::kube::client {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using base::ErrorKind;
using base::Result;
using boost::system::error_code;

constexpr auto no_throw = asio::as_tuple(asio::use_awaitable);
constexpr std::uint32_t largest_head = 32U << 10U;
constexpr std::size_t most_buffered = 128U << 10U;

using PlainStream = beast::tcp_stream;
using TlsStream = beast::ssl_stream<beast::tcp_stream>;
using Parser = http::response_parser<http::buffer_body>;

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

std::string host_field(const Endpoint& endpoint) {
    const bool is_ipv6 = endpoint.host.find(':') != std::string::npos;
    return is_ipv6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
                   : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

http::request<http::string_body> make_request(const Endpoint& endpoint, const ApiCall& call) {
    http::request<http::string_body> request;
    request.method_string(call.method);
    request.target(endpoint.base_path + call.target);
    request.version(11);
    request.set(http::field::host, host_field(endpoint));
    request.set(http::field::user_agent, fmt::format("drawbridge/{}", base::version));
    request.set(http::field::accept, "application/json");
    if (!call.access->token.empty()) {
        request.set(http::field::authorization, "Bearer " + call.access->token);
    }
    if (!call.body.empty()) {
        request.set(http::field::content_type, call.content_type);
        request.body() = call.body;
    }
    request.prepare_payload();
    return request;
}

std::optional<std::chrono::seconds> retry_after(const Parser& parser) {
    const auto text = parser.get()[http::field::retry_after];
    int value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure != std::errc() || end != text.data() + text.size() || value < 0)
        return std::nullopt;
    return std::chrono::seconds(value);
}

bool is_early_end(error_code failure) {
    return failure == http::error::end_of_stream || failure == asio::error::eof ||
           failure == http::error::partial_message || failure == asio::ssl::error::stream_truncated;
}

}  // namespace

struct HttpWire::State {
    const Endpoint& endpoint;
    std::shared_ptr<asio::ssl::context> tls;
    std::variant<PlainStream, TlsStream> stream;
    beast::flat_buffer buffer{most_buffered};
    std::optional<Parser> parser;
    Deadline resting_since = {};
    bool hung_up = false;

    State(const asio::any_io_executor& executor, const Endpoint& to)
        : endpoint(to), stream(std::in_place_type<PlainStream>, executor) {}
    State(const asio::any_io_executor& executor, const Endpoint& to,
          std::shared_ptr<asio::ssl::context> with)
        : endpoint(to),
          tls(std::move(with)),
          stream(std::in_place_type<TlsStream>, executor, *tls) {}

    [[nodiscard]] TlsStream* secure() { return std::get_if<TlsStream>(&stream); }
    [[nodiscard]] PlainStream& plain() {
        auto* const over_tls = secure();
        return over_tls != nullptr ? beast::get_lowest_layer(*over_tls)
                                   : std::get<PlainStream>(stream);
    }

    [[nodiscard]] tl::unexpected<base::Error> fail(ErrorKind kind, std::string_view what) const {
        return base::fail(kind, fmt::format("{}: {}", endpoint.text(), what));
    }
    [[nodiscard]] tl::unexpected<base::Error> fail(error_code failure) {
        if (hung_up) return fail(ErrorKind::unavailable, "the call was ended from our side");
        if (failure == beast::error::timeout)
            return fail(ErrorKind::timed_out, "no answer in time");
        if (is_early_end(failure)) {
            return fail(ErrorKind::unavailable,
                        "the connection was closed before the answer was whole");
        }
        if (failure == http::error::body_limit)
            return fail(ErrorKind::unavailable, "the answer is too large");
        return fail(ErrorKind::unavailable, failure.message());
    }

    asio::awaitable<Result<void>> shake_hands() {
        const std::string& name =
            endpoint.server_name.empty() ? endpoint.host : endpoint.server_name;
        if (auto ready = prepare_handshake(secure()->native_handle(), name, endpoint.skip_verify);
            !ready) {
            co_return fail(ErrorKind::unavailable, ready.error().message);
        }
        const auto [failure] =
            co_await secure()->async_handshake(asio::ssl::stream_base::client, no_throw);
        if (!failure) co_return Result<void>();
        const std::string distrust =
            endpoint.skip_verify ? "" : verify_failure(secure()->native_handle());
        if (distrust.empty()) co_return fail(failure);
        co_return fail(ErrorKind::unavailable, "its certificate is not trusted: " + distrust);
    }
};

HttpWire::HttpWire(const asio::any_io_executor& executor, const Endpoint& endpoint,
                   std::shared_ptr<asio::ssl::context> tls)
    : state_(tls ? std::make_unique<State>(executor, endpoint, std::move(tls))
                 : std::make_unique<State>(executor, endpoint)) {}

HttpWire::~HttpWire() = default;

asio::awaitable<Result<void>> HttpWire::connect(std::vector<tcp::endpoint> addresses,
                                                Deadline deadline) {
    state_->plain().expires_at(deadline);
    const auto [failure, reached] = co_await state_->plain().async_connect(addresses, no_throw);
    if (failure) co_return state_->fail(failure);
    keep_alive(state_->plain().socket());
    if (state_->secure() == nullptr) co_return Result<void>();
    co_return co_await state_->shake_hands();
}

asio::awaitable<Result<void>> HttpWire::send(const ApiCall& call) {
    state_->parser.reset();
    state_->plain().expires_at(call.deadline);
    auto request = make_request(state_->endpoint, call);
    error_code failure;
    if (auto* const tls = state_->secure()) {
        std::tie(failure, std::ignore) = co_await http::async_write(*tls, request, no_throw);
    } else {
        std::tie(failure, std::ignore) =
            co_await http::async_write(state_->plain(), request, no_throw);
    }
    if (failure) co_return state_->fail(failure);
    co_return Result<void>();
}

asio::awaitable<Result<ApiAnswer>> HttpWire::read_head(std::optional<std::size_t> most) {
    Parser& parser = state_->parser.emplace();
    parser.header_limit(largest_head);
    if (most) {
        parser.body_limit(*most);
    } else {
        parser.body_limit(boost::none);
    }
    error_code failure;
    if (auto* const tls = state_->secure()) {
        std::tie(failure, std::ignore) =
            co_await http::async_read_header(*tls, state_->buffer, parser, no_throw);
    } else {
        std::tie(failure, std::ignore) =
            co_await http::async_read_header(state_->plain(), state_->buffer, parser, no_throw);
    }
    if (failure) co_return state_->fail(failure);
    ApiAnswer answer;
    answer.status = static_cast<int>(parser.get().result_int());
    answer.retry_after = retry_after(parser);
    co_return answer;
}

asio::awaitable<Result<std::string>> HttpWire::read_piece(Deadline deadline) {
    state_->plain().expires_at(deadline);
    Parser& parser = *state_->parser;
    std::array<char, 8192> space{};
    std::string piece;
    while (piece.empty() && !parser.is_done()) {
        parser.get().body() = {space.data(), space.size(), true};
        error_code failure;
        if (auto* const tls = state_->secure()) {
            std::tie(failure, std::ignore) =
                co_await http::async_read_some(*tls, state_->buffer, parser, no_throw);
        } else {
            std::tie(failure, std::ignore) =
                co_await http::async_read_some(state_->plain(), state_->buffer, parser, no_throw);
        }
        piece.assign(space.data(), space.size() - parser.get().body().size);
        // need_buffer: the piece is full
        if (failure && failure != http::error::need_buffer) co_return state_->fail(failure);
    }
    co_return piece;
}

bool HttpWire::answer_begun() const {
    return state_->parser && state_->parser->got_some();
}

bool HttpWire::reusable() const {
    const auto& parser = state_->parser;
    return parser && parser->is_done() && parser->keep_alive() && state_->buffer.size() == 0;
}

bool HttpWire::made_with(const std::shared_ptr<asio::ssl::context>& tls) const {
    return state_->tls == tls;
}

void HttpWire::rest(Deadline now) {
    state_->plain().expires_never();
    state_->resting_since = now;
}

HttpWire::Deadline HttpWire::resting_since() const {
    return state_->resting_since;
}

void HttpWire::hang_up() {
    state_->hung_up = true;
    error_code ignored;
    state_->plain().socket().close(ignored);
}

}  // namespace drawbridge::kube::client
