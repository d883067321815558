#include "server/options.hpp"

#include <doctest/doctest.h>

#include <variant>

using namespace drawbridge::server;
using namespace std::chrono_literals;

namespace {

ServeOptions parsed(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--self-signed", "folder"});
    auto result = parse_options(arguments);
    REQUIRE(std::holds_alternative<ServeOptions>(result));
    return std::get<ServeOptions>(result);
}

}  // namespace

TEST_CASE("addresses are IP addresses with a port") {
    const struct {
        std::string_view text;
        Address address;
    } good[] = {{"127.0.0.1:9443", {"127.0.0.1", 9443}},
                {"[::1]:0", {"::1", 0}},
                {"[::]:1", {"::", 1}},
                {":9443", {"0.0.0.0", 9443}}};
    for (const auto& row : good) {
        CAPTURE(row.text);
        REQUIRE(parse_address(row.text).has_value());
        CHECK(*parse_address(row.text) == row.address);
    }
    for (const std::string_view bad :
         {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "::1:80", "localhost:80",
          "1.2.3.4:65536", "1.2.3.4:-1", "[]:80", "[1.2.3.4]:80", "1.2.3.4:80 "}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_address(bad).has_value());
    }
}

TEST_CASE("a trial listens on the loopback interface unless told otherwise") {
    CHECK(parsed({}).listen == Address{"127.0.0.1", 9443});
    CHECK(parsed({}).operator_listen == Address{"127.0.0.1", 8081});
    CHECK(parsed({"--listen", ":1"}).listen == Address{"0.0.0.0", 1});
    const auto real = parse_options({"--tls-cert", "c", "--tls-key", "k"});
    CHECK(std::get<ServeOptions>(real).listen == Address{"0.0.0.0", 9443});
}

TEST_CASE("time limits are durations, and connections live longer than an API server's idle ones") {
    CHECK(parsed({}).times.idle > 90s);
    const ServeOptions options = parsed({"--idle-timeout", "1m30s", "--drain-delay", "0s"});
    CHECK(options.times.idle == 90s);
    CHECK(options.drain.leaving == 0s);
}

TEST_CASE("the last of an option given twice counts") {
    CHECK(parsed({"--drain-delay", "1s", "--drain-delay", "2s"}).drain.leaving == 2s);
}
