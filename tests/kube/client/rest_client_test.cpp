#include "kube/client/rest_client.hpp"

#include "scripted_transport.hpp"

#include <doctest/doctest.h>

using namespace drawbridge;
using namespace drawbridge::kube::client;
using base::ErrorKind;

namespace {

struct Bench {
    boost::asio::io_context io;
    Script script;
    RestClient client{io.get_executor(), std::make_unique<ScriptedTransport>(script),
                      std::make_unique<ScriptedAccess>()};

    base::Result<ApiAnswer> get(std::chrono::steady_clock::time_point deadline = in_a_minute()) {
        return run(io, client.call({.target = "/version?x=1", .deadline = deadline}));
    }
};

ApiAnswer status(int number) {
    return {.status = number};
}
ApiAnswer later(int number, int seconds) {
    return {.status = number, .retry_after = std::chrono::seconds(seconds)};
}

}  // namespace

TEST_CASE("after a 401 the credentials are read anew, once") {
    Bench bench;
    bench.script.next = {status(401), status(200)};
    CHECK(bench.get());
    REQUIRE(bench.script.calls.size() == 2);
    CHECK(bench.script.calls[0].access->token == "first");
    CHECK(bench.script.calls[1].access->token == "second");

    bench.script.next = {status(401), status(401), status(200)};
    const auto refused = bench.get();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::forbidden);
}

TEST_CASE("a server that asks to wait is asked again, if there is time") {
    for (const int number : {429, 500, 503}) {
        CAPTURE(number);
        Bench bench;
        bench.script.next = {later(number, 0), status(200)};
        CHECK(bench.get());
        CHECK(bench.script.calls.size() == 2);
    }
    Bench bench;
    bench.script.next = {later(429, 3600), status(200)};
    const auto refused = bench.get();
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::unavailable);
    CHECK(bench.script.calls.size() == 1);
}

TEST_CASE("other refusals are final") {
    for (const int number : {400, 403, 404, 409, 422, 500, 503}) {
        CAPTURE(number);
        Bench bench;
        bench.script.next = {status(number), status(200)};
        const auto refused = bench.get();
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message.starts_with("GET /version: "));
        CHECK(bench.script.calls.size() == 1);
    }
}

TEST_CASE("a 403 that asks to wait is not waited for") {
    Bench bench;
    bench.script.next = {later(403, 0), status(200)};
    CHECK_FALSE(bench.get());
    CHECK(bench.script.calls.size() == 1);
}

TEST_CASE("a failure of the connection is told with the call") {
    Bench bench;
    bench.script.next = {base::Error{ErrorKind::timed_out, "no answer in time", {}}};
    const auto failed = bench.get();
    REQUIRE_FALSE(failed);
    CHECK(failed.error().kind == ErrorKind::timed_out);
    CHECK(failed.error().message == "GET /version: no answer in time");
}

TEST_CASE("credentials that cannot be read are no answer of the server") {
    struct NoAccess final : AccessSource {
        boost::asio::awaitable<base::Result<std::shared_ptr<const Access>>> get(
            bool, std::chrono::steady_clock::time_point) override {
            co_return base::fail(ErrorKind::not_found, "token: No such file");
        }
        void stop() override {}
    };
    boost::asio::io_context io;
    Script script;
    RestClient client(io.get_executor(), std::make_unique<ScriptedTransport>(script),
                      std::make_unique<NoAccess>());
    const auto failed = run(io, client.call({.target = "/x", .deadline = in_a_minute()}));
    REQUIRE_FALSE(failed);
    CHECK(failed.error().kind == ErrorKind::unavailable);
    CHECK(script.calls.empty());
}

TEST_CASE("an answer that is no JSON is a failure of the server") {
    for (const char* const body : {"", "<html>", "{\"a\":1", "{\"a\":1,\"a\":2}"}) {
        CAPTURE(body);
        Bench bench;
        bench.script.next = {ApiAnswer{.status = 200, .body = body}};
        const auto read =
            run(bench.io, bench.client.call_json({.target = "/x", .deadline = in_a_minute()}));
        REQUIRE_FALSE(read);
        CHECK(read.error().kind == ErrorKind::unavailable);
    }
}

TEST_CASE("a stop ends a wait that the server asked for") {
    Bench bench;
    bench.script.next = {later(429, 30), status(200)};
    std::optional<base::Result<ApiAnswer>> out;
    boost::asio::co_spawn(bench.io, bench.client.call({.target = "/x", .deadline = in_a_minute()}),
                          [&](const std::exception_ptr&, base::Result<ApiAnswer> result) {
                              out = std::move(result);
                          });
    bench.io.poll();
    CHECK_FALSE(out);
    bench.client.stop();
    bench.io.run();
    REQUIRE(out);
    CHECK_FALSE(*out);
}
