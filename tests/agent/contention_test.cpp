#include "agent/contention.hpp"

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
