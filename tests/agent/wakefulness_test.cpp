#include "agent/share/wakefulness.hpp"

#include <doctest/doctest.h>

using namespace drawbridge::agent;
using Names = std::vector<std::string>;

namespace {

constexpr std::uint64_t second = 1'000'000'000;

}  // namespace

TEST_CASE("a share without a process sleeps once it was looked at") {
    Wakefulness shares;
    shares.list({"b", "a"});
    CHECK(shares.all() == Names{"a", "b"});
    CHECK(shares.awake(0) == Names{"a", "b"});
    CHECK(shares.awake(100 * second) == Names{"a", "b"});  // nobody has looked yet
    shares.looked("a", false, 100 * second);
    CHECK(shares.awake(100 * second) == Names{"b"});
    shares.wake("a");
    CHECK(shares.awake(200 * second) == Names{"a", "b"});
}

TEST_CASE("a share stays awake for a while behind its last process") {
    Wakefulness shares;
    shares.list({"a"});
    shares.looked("a", true, 5 * second);
    shares.looked("a", false, 6 * second);
    CHECK(shares.awake(15 * second - 1) == Names{"a"});
    CHECK(shares.awake(15 * second).empty());
}

TEST_CASE("who opens a ledger has time to take a slot in it") {
    Wakefulness shares;
    shares.list({"a"});
    shares.looked("a", false, 0);
    shares.opened("a", 50 * second);
    shares.looked("a", false, 50 * second);
    CHECK(shares.awake(60 * second - 1) == Names{"a"});
    CHECK(shares.awake(60 * second).empty());
}

TEST_CASE("shares come and go, and those that stay are left as they are") {
    Wakefulness shares;
    shares.list({"a", "b"});
    shares.looked("a", false, 0);
    shares.looked("b", true, 0);
    shares.list({"a", "c"});
    CHECK(shares.all() == Names{"a", "c"});
    CHECK(shares.awake(second) == Names{"c"});
    shares.opened("b", second);
    shares.wake("b");
    shares.looked("b", true, second);
    CHECK(shares.all() == Names{"a", "c"});
}
