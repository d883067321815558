#include "agent/share/share_use.hpp"

#include "agent/share/share_pages.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <string>

using namespace drawbridge::agent;

namespace {

constexpr std::uint64_t second = 1'000'000'000;

LedgerSlot slot_of(std::uint32_t pid, std::uint64_t launches, std::uint32_t denied = 0) {
    LedgerSlot slot{.used = 100};
    slot.content.state = DRAWBRIDGE_SLOT_LIVE;
    slot.content.pid = pid;
    slot.content.launches = launches;
    slot.content.denied = denied;
    return slot;
}

}  // namespace

TEST_CASE("a fresh ledger is empty") {
    const auto copy = parse_ledger(fresh_ledger());
    REQUIRE(copy);
    CHECK(use_of(*copy, 100).used_bytes == 0);
    CHECK(use_of(*copy, 100).processes == 0);
    CHECK_FALSE(parse_ledger(fresh_ledger().substr(1)));
}

TEST_CASE("use is summed over slots, by kind over the living") {
    LedgerCopy copy = {slot_of(1, 0), slot_of(2, 0), slot_of(3, 0)};
    copy[0].content.gauge[DRAWBRIDGE_GAUGE_LINEAR] = 60;
    copy[1].content.gauge[DRAWBRIDGE_GAUGE_LINEAR] = 30;
    copy[1].content.gauge[DRAWBRIDGE_GAUGE_POOL] = 5;
    copy[2].content.gauge[DRAWBRIDGE_GAUGE_POOL] = 7;
    copy[2].content.state = DRAWBRIDGE_SLOT_FREE;
    const LedgerUse use = use_of(copy, 1000);
    CHECK(use.used_bytes == 300);
    CHECK(use.processes == 2);
    CHECK(use.kind_bytes[DRAWBRIDGE_GAUGE_LINEAR] == 90);
    CHECK(use.kind_bytes[DRAWBRIDGE_GAUGE_POOL] == 5);
    CHECK(use_of(copy, 250).used_bytes == 250);
}

TEST_CASE("a ledger that a tenant filled with noise gives figures within bounds") {
    std::mt19937_64 random(7);
    ShareHistory history;
    LedgerCounts before;
    for (std::uint64_t run = 0; run < 200; ++run) {
        std::string ledger = fresh_ledger();
        for (std::size_t at = sizeof(drawbridge_header); at + 8 <= ledger.size(); at += 8) {
            const std::uint64_t noise = random() & (run % 2 == 0 ? ~0ULL : 0x1ULL);
            std::memcpy(ledger.data() + at, &noise, sizeof noise);
        }
        const auto copy = parse_ledger(ledger);
        REQUIRE(copy);
        const LedgerUse use = use_of(*copy, 1 << 30);
        CHECK(use.used_bytes <= 1 << 30);
        CHECK(use.used_bytes >= 0);
        CHECK(use.processes <= DRAWBRIDGE_SLOTS);
        for (const std::int64_t bytes : use.kind_bytes)
            CHECK((bytes >= 0 && bytes <= 1 << 30));
        history.take(*copy, run * second);
        CHECK(history.totals().launches >= before.launches);
        CHECK(history.totals().throttle_ns >= before.throttle_ns);
        CHECK(history.rates().launches >= 0);
        before = history.totals();
    }
}

TEST_CASE("what the dead did stays counted, and a new owner of a slot counts from zero") {
    ShareHistory history;
    history.take({slot_of(1, 10)}, second);
    CHECK(history.totals().launches == 10);
    history.take({slot_of(1, 15), slot_of(2, 100)}, 2 * second);
    CHECK(history.totals().launches == 115);
    LedgerSlot freed = slot_of(2, 100);
    freed.content.state = DRAWBRIDGE_SLOT_FREE;
    history.take({slot_of(1, 15), freed}, 3 * second);
    CHECK(history.totals().launches == 115);
    history.take({slot_of(3, 40), freed}, 4 * second);  // more than its predecessor had
    CHECK(history.totals().launches == 155);
    history.take({slot_of(3, 4), freed}, 5 * second);  // a counter that fell
    CHECK(history.totals().launches == 159);
}

TEST_CASE("rates are those between the last two looks that lie apart") {
    ShareHistory history;
    history.take({slot_of(1, 10)}, second);
    CHECK(history.rates().launches == 0);
    LedgerSlot slot = slot_of(1, 30, 4);
    slot.content.throttle_ns = second / 2;
    history.take({slot}, 3 * second);
    CHECK(history.rates().launches == 10);
    CHECK(history.rates().denied == 2);
    CHECK(history.rates().throttled_permille == 250);
    history.take({slot}, 3 * second + 1000);
    CHECK(history.rates().launches == 10);
    history.take({slot}, 4 * second);
    CHECK(history.rates().launches == 0);
}

TEST_CASE("a share is active for a second after work was seen, and not by what was there before") {
    ShareHistory history;
    history.take({slot_of(1, 10)}, second);
    CHECK_FALSE(history.was_active(second));
    history.take({slot_of(1, 11)}, 2 * second);
    CHECK(history.was_active(2 * second));
    CHECK(history.was_active(3 * second - 1));
    CHECK_FALSE(history.was_active(3 * second));
}
