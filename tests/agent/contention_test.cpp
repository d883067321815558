#include "agent/share/contention.hpp"

#include <doctest/doctest.h>

using namespace drawbridge::agent;
using Places = std::vector<std::size_t>;

TEST_CASE("a share is contended while another one of its GPU works") {
    const Neighbour busy{.device = "a", .worked = true, .has_process = true};
    const Neighbour idle{.device = "a", .has_process = true};
    const Neighbour elsewhere{.device = "b", .worked = true, .has_process = true};
    CHECK(contended(std::vector{busy, idle}) == Places{1});
    CHECK(contended(std::vector{busy, busy}) == Places{0, 1});
    CHECK(contended(std::vector{idle, idle}).empty());
    CHECK(contended(std::vector{busy}).empty());
    CHECK(contended(std::vector{busy, elsewhere}).empty());
    CHECK(contended(std::vector{busy, busy, elsewhere, idle}) == Places{0, 1, 3});
    CHECK(contended({}).empty());
}

TEST_CASE("one whose launches nobody counts is there while a process of it is") {
    const Neighbour idle{.device = "a", .has_process = true};
    Neighbour open{.device = "a", .has_limit = false, .has_process = true};
    CHECK(contended(std::vector{idle, open}) == Places{0});
    open.has_process = false;
    CHECK(contended(std::vector{idle, open}).empty());
}

TEST_CASE("where the driver tells, an idle process is none that works") {
    const Neighbour idle{.device = "a", .has_process = true};
    Neighbour open{.device = "a", .has_limit = false, .has_process = true, .gpu_busy = false};
    CHECK(contended(std::vector{idle, open}).empty());
    open.gpu_busy = true;
    CHECK(contended(std::vector{idle, open}) == Places{0});
    CHECK(count_active(std::vector{idle, open, open}, "a") == 2);
    CHECK(count_active(std::vector{idle, open, open}, "b") == 0);
}

TEST_CASE("a share waits for one of a higher priority that is seen to work on its GPU") {
    const Neighbour high{.device = "a", .worked = true, .priority = 0};
    const Neighbour low{.device = "a", .worked = true, .priority = 1};
    const Neighbour lower{.device = "a", .priority = 2};
    const Neighbour elsewhere{.device = "b", .worked = true, .priority = 1};
    CHECK(outranked(std::vector{high, low, lower, elsewhere, high}) == Places{1, 2});
    CHECK(outranked(std::vector{low, lower, low}) == Places{1});
    CHECK(outranked({}).empty());
    Neighbour open{.device = "a", .has_limit = false, .has_process = true, .priority = 0};
    CHECK(outranked(std::vector{open, low}).empty());  // it may do nothing
    open.gpu_busy = true;
    CHECK(outranked(std::vector{open, low}) == Places{1});
}

TEST_CASE("after a minute of pauses there is a second without") {
    constexpr std::uint64_t second = 1'000'000'000;
    PauseGuard guard;
    std::uint64_t paused = 0;
    for (std::uint64_t now = 100; now < 100 + 183; ++now)
        paused += guard.look(true, now * second, {}) ? 1 : 0;
    CHECK(paused == 180);
    CHECK(guard.look(true, 300 * second, {}));
    CHECK_FALSE(guard.look(false, 330 * second, {}));
    for (std::uint64_t now = 331; now < 331 + 60; ++now)
        CHECK(guard.look(true, now * second, {}));  // the minute began anew
    CHECK_FALSE(guard.look(true, 391 * second, {}));
}

TEST_CASE("how long pauses and breaks are is for the administrator to say") {
    constexpr std::uint64_t second = 1'000'000'000;
    PauseGuard guard;
    std::string seen;
    for (std::uint64_t now = 1; now < 12; ++now)
        seen += guard.look(true, now * second, {.longest = 3, .free = 2}) ? '-' : 'f';
    CHECK(seen == "---ff---ff-");
    CHECK_FALSE(guard.look(true, 20 * second, {.longest = 3, .free = 0}));
    CHECK(guard.look(true, 20 * second, {.longest = 3, .free = 0}));
}
