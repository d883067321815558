#include "server/router.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string_view>

using namespace drawbridge::server;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;

TEST_CASE("durations are read as Go prints them") {
    const struct {
        std::string_view text;
        std::optional<nanoseconds> expected;
    } rows[] = {
        {"5s", 5s},
        {"1m30s", 90s},
        {"500ms", 500ms},
        {"1.5s", 1500ms},
        {".5s", 500ms},
        {"1h0m1s", 3601s},
        {"0", 0s},
        {"0s", 0s},
        {"2us", 2us},
        {"2\u00b5s", 2us},
        {"2\u03bcs", 2us},
        {"7ns", 7ns},
        {"-1s", -1s},
        {"+1s", 1s},
        {"", std::nullopt},
        {"5", std::nullopt},
        {"s", std::nullopt},
        {"5 s", std::nullopt},
        {".s", std::nullopt},
        {"-", std::nullopt},
        {"1d", std::nullopt},
        {"5S", std::nullopt},
        {"1s2", std::nullopt},
        {"1..5s", std::nullopt},
        {"9999999999h", std::nullopt},
        {"99999999999999999999999999999999999999999999s", std::nullopt},
    };
    for (const auto& row : rows) {
        CAPTURE(row.text);
        CHECK(parse_go_duration(row.text) == row.expected);
    }
}

TEST_CASE("our own calls end before the caller's patience does") {
    CHECK(time_for_review("/mutate?timeout=5s") == 4500ms);
    CHECK(time_for_review("/mutate?x=1&timeout=1s&y=2") == 900ms);
    CHECK(time_for_review("/mutate?timeout=30s") == 9s);
    CHECK(time_for_review("/mutate") == 9s);
    CHECK(time_for_review("/mutate?timeout=") == 9s);
    CHECK(time_for_review("/mutate?timeout=soon") == 9s);
    CHECK(time_for_review("/mutate?timeout=-5s") == 9s);
    CHECK(time_for_review("/mutate?timeout=0s") == 9s);
    CHECK(time_for_review("/mutate?nottimeout=1s&&&") == 9s);
}

TEST_CASE("a request is routed by path, method and type, in this order") {
    const struct {
        RequestHead head;
        int status;  // 0: a review
    } rows[] = {
        {{"POST", "/mutate?timeout=5s", "application/json"}, 0},
        {{"POST", "/mutate", "APPLICATION/json ; charset=utf-8"}, 0},
        {{"POST", "/mutate/", "application/json"}, 404},
        {{"POST", "/Mutate", "application/json"}, 404},
        {{"POST", "", "application/json"}, 404},
        {{"POST", "?timeout=5s", "application/json"}, 404},
        {{"GET", "/elsewhere", "text/plain"}, 404},
        {{"GET", "/mutate", "text/plain"}, 405},
        {{"post", "/mutate", "application/json"}, 405},
        {{"POST", "/mutate", ""}, 415},
        {{"POST", "/mutate", "application/json-patch+json"}, 415},
        {{"POST", "/mutate", "application/jso"}, 415},
    };
    for (const auto& row : rows) {
        CAPTURE(row.head.method);
        CAPTURE(row.head.target);
        CAPTURE(row.head.content_type);
        const auto routed = route(row.head);
        const auto* const refused = std::get_if<HttpAnswer>(&routed);
        CHECK((refused == nullptr ? 0 : refused->status) == row.status);
    }
}

TEST_CASE("who uses another method is told the right one") {
    const auto routed = route({"PUT", "/mutate", "application/json"});
    CHECK(std::get<HttpAnswer>(routed).headers == "Allow: POST\r\n");
}
