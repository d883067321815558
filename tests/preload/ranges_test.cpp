#include "preload/ranges.hpp"

#include <doctest/doctest.h>

#include <random>
#include <set>

using namespace preload;

namespace {
constexpr std::uint64_t page = 2 << 20;
}

TEST_CASE("what lies over another counts once, on its device") {
    Ranges ranges;
    ranges.add(0, 10 * page, 4 * page);
    ranges.add(0, 12 * page, 4 * page);
    ranges.add(0, 11 * page, page);
    ranges.add(1, 10 * page, 1);
    ranges.add(0, 40 * page + 512, 512);
    ranges.add(0, 40 * page + 4096, page);
    ranges.sort();
    CHECK(ranges.bytes_on(0) == 8 * page);
    CHECK(ranges.bytes_on(1) == page);
    CHECK(ranges.bytes_on(2) == 0);
}

TEST_CASE("addresses that nobody knows lie over no other") {
    Ranges ranges;
    for (int at = 0; at < 3; ++at)
        ranges.add(0, 0, page);
    ranges.add(0, 5 * page, page);
    ranges.add(0, 0, UINT64_MAX);
    ranges.sort();
    CHECK(ranges.bytes_on(0) >= (std::uint64_t{1} << 50) + 4 * page);
}

TEST_CASE("random ranges cover the pages that they touch") {
    std::mt19937 random(7);
    for (int round = 0; round < 50; ++round) {
        Ranges ranges;
        std::set<std::uint64_t> touched[2];
        for (std::uint64_t at = random() % 400; at > 0; --at) {
            const std::size_t device = random() % 2;
            const std::uint64_t from = page + random() % (300 * page);
            const std::uint64_t bytes = 1 + random() % (9 * page);
            ranges.add(static_cast<int>(device), from, bytes);
            for (std::uint64_t place = from / page; place <= (from + bytes - 1) / page; ++place)
                touched[device].insert(place);
        }
        ranges.sort();
        for (int device = 0; device < 2; ++device)
            CHECK(ranges.bytes_on(device) == touched[device].size() * page);
    }
}
