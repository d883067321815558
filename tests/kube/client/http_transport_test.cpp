#include "kube/client/http_transport.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace drawbridge::kube::client;
namespace asio = boost::asio;
using asio::ip::tcp;
using drawbridge::base::ErrorKind;
using drawbridge::base::Result;
using std::chrono::steady_clock;

namespace {

constexpr auto no_throw = asio::as_tuple(asio::use_awaitable);

/// An API server on the loopback that answers when it is told to, and calls to it.
struct Bench {
    asio::io_context io;
    tcp::acceptor acceptor{io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
    std::list<tcp::socket> connections;
    struct Asked {
        tcp::socket* connection;
        std::string head;
    };
    std::vector<Asked> asked;  ///< what waits for an answer
    std::unique_ptr<ApiTransport> transport = make_http_transport(
        io.get_executor(), {.tls = false,
                            .host = "127.0.0.1",
                            .port = std::to_string(acceptor.local_endpoint().port())});
    std::list<std::optional<Result<ApiAnswer>>> results;

    Bench() { asio::co_spawn(io, serve(), asio::detached); }

    asio::awaitable<void> serve() {
        while (true) {
            auto [failure, socket] = co_await acceptor.async_accept(no_throw);
            if (failure) co_return;
            tcp::socket& kept = connections.emplace_back(std::move(socket));
            asio::co_spawn(io, read(kept), asio::detached);
        }
    }
    asio::awaitable<void> read(tcp::socket& socket) {
        std::string text;
        while (true) {
            const auto [failure, size] = co_await asio::async_read_until(
                socket, asio::dynamic_buffer(text), "\r\n\r\n", no_throw);
            if (failure) co_return;
            asked.push_back({&socket, text.substr(0, size)});
            text.erase(0, size);
        }
    }
    void answer_all() {
        for (const Asked& one : std::exchange(asked, {}))
            asio::write(*one.connection, asio::buffer(std::string("HTTP/1.1 200 OK\r\n"
                                                                  "Content-Length: 2\r\n\r\n{}")));
    }

    std::optional<Result<ApiAnswer>>& call(const char* target, steady_clock::time_point deadline) {
        auto& result = results.emplace_back();
        ApiCall get{.access = std::make_shared<Access>(), .deadline = deadline};
        get.target = target;
        auto work = [](ApiTransport& over, ApiCall asks,
                       std::optional<Result<ApiAnswer>>& into) -> asio::awaitable<void> {
            into = co_await over.call(std::move(asks));
        };
        asio::co_spawn(io, work(*transport, std::move(get), result), asio::detached);
        return result;
    }
    void call(std::size_t times) {
        for (std::size_t at = 0; at < times; ++at)
            call("/", steady_clock::now() + std::chrono::minutes(5));
    }
    void run_until(const std::function<bool()>& holds) {
        while (!holds())
            io.run_one();
    }
    [[nodiscard]] std::size_t done() const {
        return static_cast<std::size_t>(
            std::ranges::count_if(results, [](const auto& one) { return one.has_value(); }));
    }
};

}  // namespace

TEST_CASE("the connections of a burst serve the next one") {
    Bench bench;
    for (std::size_t burst = 1; burst <= 3; ++burst) {
        bench.call(8);
        bench.run_until([&] { return bench.asked.size() == 8; });
        bench.answer_all();
        bench.run_until([&] { return bench.done() == 8 * burst; });
        CHECK(bench.connections.size() == 8);
    }
}

TEST_CASE("no call waits for a turn beyond its deadline") {
    Bench bench;
    bench.call(8);
    bench.run_until([&] { return bench.asked.size() == 8; });
    bench.call(1);
    const auto& late = bench.call("/late", steady_clock::now());
    bench.run_until([&] { return late.has_value(); });
    CHECK((*late).error().kind == ErrorKind::timed_out);
    const bool is_first = bench.asked.size() == 8 || bench.asked[8].head.starts_with("GET /late ");
    CHECK(is_first);
}

TEST_CASE("a connection that led nowhere takes the others of its time with it") {
    Bench bench;
    bench.call(8);
    bench.run_until([&] { return bench.asked.size() == 8; });
    bench.answer_all();
    bench.run_until([&] { return bench.done() == 8; });
    const auto& lost = bench.call("/lost", steady_clock::now() + std::chrono::milliseconds(200));
    bench.run_until([&] { return lost.has_value(); });
    REQUIRE((*lost).error().kind == ErrorKind::timed_out);
    bench.call(1);
    bench.run_until([&] { return bench.asked.size() == 2; });
    CHECK(bench.connections.size() == 9);
}

TEST_CASE("calls that wait for a turn end with the transport") {
    Bench bench;
    bench.call(8);
    bench.run_until([&] { return bench.asked.size() == 8; });
    bench.call(8);
    bench.io.poll();
    SUBCASE("closed") {
        bench.transport->close();
    }
    SUBCASE("destroyed") {
        bench.transport.reset();
    }
    bench.run_until([&] { return bench.done() == 16; });
    for (const auto& result : bench.results)
        CHECK((*result).error().kind == ErrorKind::unavailable);
    CHECK(bench.connections.size() == 8);
}

TEST_CASE("calls that wait for a turn may be left behind by who runs them") {
    Bench bench;
    bench.call(16);
    bench.run_until([&] { return bench.asked.size() == 8; });
    CHECK(bench.done() == 0);
}
