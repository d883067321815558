#include "agent/share/busy_scale.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace drawbridge::agent;

namespace {

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint32_t one = BusyScale::one;

/// A share whose launches take `events` seconds between their events in each second, and `real` of
/// GPU time by the driver's count.
struct Load {
    double events = 0.5;
    double real = 0.5;
    std::size_t active = 2;
    BusyScale scale = {};
    std::uint32_t lying = one;
    BusyScale::Look now = {.now_ns = second, .busy_ns = 0};

    double run(int seconds) {
        for (int i = 0; i < seconds; ++i) {
            now.active = active;
            lying = scale.look(now, lying);
            now.now_ns += second;
            now.charged_ns += static_cast<std::uint64_t>(events * second * lying / one);
            *now.busy_ns += static_cast<std::uint64_t>(real * second);
        }
        return static_cast<double>(lying) / one;
    }
};

}  // namespace

TEST_CASE("shares that work together are taken to have equal parts until the driver has told") {
    Load load;
    CHECK(load.run(5) == doctest::Approx(0.5));
    load.active = 4;
    CHECK(load.run(2) == doctest::Approx(0.25));
    load.run(3);
    CHECK(load.run(1) != doctest::Approx(0.25));  // compared by then
    Load alone{.active = 1};
    CHECK(alone.run(5) == doctest::Approx(1));
    Load silent;
    silent.now.active = 2;
    silent.now.busy_ns.reset();
    silent.lying = silent.scale.look(silent.now, silent.lying);
    CHECK(silent.lying == one / 2);
}

TEST_CASE("what is charged comes to what the driver counts, a quarter at a time") {
    for (const double part : {0.2, 0.35, 0.5, 0.9, 1.1}) {
        CAPTURE(part);
        Load load{.events = 0.8, .real = 0.8 * part, .active = 1};
        double before = 1;
        for (int round = 0; round < 12; ++round) {
            const double now = load.run(5);
            CHECK(now <= before * 1.2501);
            CHECK(now >= before * 0.7999);
            before = now;
        }
        CHECK(before == doctest::Approx(part).epsilon(0.02));
    }
}

TEST_CASE("work that has just begun is not compared with what the driver tells a second later") {
    for (const int idle : {0, 1, 2, 3, 4, 5, 6}) {
        CAPTURE(idle);
        Load load{.events = 0, .real = 0, .active = 1};
        load.run(idle);
        load.events = 1;
        load.run(1);
        load.real = 1;
        CHECK(load.run(30) == doctest::Approx(1));
    }
}

TEST_CASE("it stays within bounds whatever the driver says") {
    Load low{.events = 0.9, .real = 0.001};
    CHECK(low.run(120) == doctest::Approx(0.1).epsilon(0.01));
    Load high{.events = 0.1, .real = 1};
    CHECK(high.run(120) == doctest::Approx(1.2).epsilon(0.01));
}

TEST_CASE("too little to compare changes nothing") {
    Load load{.events = 0.8, .real = 0.4, .active = 1};
    const double before = load.run(30);
    SUBCASE("nothing is charged: the gate is open") {
        load.events = 0;
    }
    SUBCASE("the driver counts nothing") {
        load.real = 0;
    }
    SUBCASE("it does not tell any more") {
        load.now.busy_ns.reset();
        for (int i = 0; i < 30; ++i, load.now.now_ns += second)
            load.lying = load.scale.look(load.now, load.lying);
        CHECK(static_cast<double>(load.lying) / one == doctest::Approx(before));
        return;
    }
    // What was under way when it changed may still be compared once.
    load.run(6);
    const double after = load.run(1);
    CHECK(load.run(30) == doctest::Approx(after));
}

TEST_CASE("what an earlier agent found goes on") {
    Load load{.active = 2};
    load.lying = one / 3;
    CHECK(load.run(3) == doctest::Approx(1.0 / 3).epsilon(0.001));
}
