#include "server/drain.hpp"

#include <doctest/doctest.h>

#include <chrono>

using namespace drawbridge::server;
using namespace std::chrono_literals;

namespace {
const Drain::Time start{100s};
}

TEST_CASE("without a signal the process serves for ever") {
    Drain drain({5s, 10s});
    CHECK(drain.step(start + 24h, 0) == DrainPhase::serving);
    CHECK(drain.next() == Drain::Time::max());
}

TEST_CASE("after a signal the delay passes before anything ends") {
    Drain drain({5s, 10s});
    drain.on_signal(start);
    CHECK(drain.phase() == DrainPhase::leaving);
    CHECK(drain.next() == start + 5s);
    CHECK(drain.step(start + 4999ms, 0) == DrainPhase::leaving);
    CHECK(drain.step(start + 5s, 0) == DrainPhase::finishing);
    CHECK(drain.step(start + 5s, 0) == DrainPhase::stopped);
}

TEST_CASE("what is open is waited for, within bounds") {
    Drain drain({5s, 10s});
    drain.on_signal(start);
    CHECK(drain.step(start + 6s, 3) == DrainPhase::finishing);
    CHECK(drain.step(start + 7s, 2) == DrainPhase::finishing);
    SUBCASE("until it is closed") {
        CHECK(drain.step(start + 8s, 0) == DrainPhase::stopped);
    }
    SUBCASE("until the limit, counted from the end of the delay as it was seen") {
        CHECK(drain.step(start + 16s - 1ns, 2) == DrainPhase::finishing);
        CHECK(drain.step(start + 16s, 2) == DrainPhase::stopped);
    }
}

TEST_CASE("a second signal stops at once") {
    Drain drain({5s, 10s});
    drain.on_signal(start);
    drain.on_signal(start + 1s);
    CHECK(drain.step(start + 1s, 7) == DrainPhase::stopped);
}

TEST_CASE("without a delay the phases follow each other") {
    Drain drain({0s, 0s});
    drain.on_signal(start);
    CHECK(drain.step(start, 5) == DrainPhase::finishing);
    CHECK(drain.step(start, 5) == DrainPhase::stopped);
}
