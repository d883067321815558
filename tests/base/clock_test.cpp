#include "base/clock.hpp"

#include <doctest/doctest.h>

namespace drawbridge::base {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a manual clock moves only when told") {
    ManualClock clock(Clock::Wall(1000s));
    const auto start = clock.steady();
    CHECK(clock.now() == Clock::Wall(1000s));
    clock.advance(1500ms);
    CHECK(clock.now() == Clock::Wall(1001500ms));
    CHECK(clock.steady() - start == 1500ms);
    clock.set_wall(Clock::Wall(5s));
    CHECK(clock.now() == Clock::Wall(5s));
    CHECK(clock.steady() - start == 1500ms);
}

TEST_CASE("the system's clock never goes back") {
    const SystemClock clock;
    const auto first = clock.steady();
    CHECK(clock.steady() >= first);
    CHECK(clock.now() > Clock::Wall(1'700'000'000s));
}

}  // namespace
}  // namespace drawbridge::base
