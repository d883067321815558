#include "preload/ledger.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

using namespace preload;

namespace {

constexpr std::uint64_t mib = 1 << 20;

struct Files {
    std::unique_ptr<drawbridge_limits> limits{new drawbridge_limits()};
    std::unique_ptr<drawbridge_ledger> ledger{new drawbridge_ledger()};

    ledger::View view(std::uint32_t slot) {
        ledger->slot[slot].state = DRAWBRIDGE_SLOT_LIVE;
        ledger::raise_slots_in_use(*ledger, slot + 1);
        return {limits.get(), ledger.get(), slot};
    }
};

}  // namespace

TEST_CASE("a charge up to the limit is granted, one byte more is not") {
    Files files;
    const auto view = files.view(0);
    CHECK(ledger::try_charge(view, 100 * mib, 100 * mib));
    CHECK_FALSE(ledger::try_charge(view, 100 * mib, 1));
    CHECK(ledger::usage(view) == 100 * mib);
}

TEST_CASE("a limit of zero bytes grants nothing but nothing") {
    Files files;
    const auto view = files.view(0);
    CHECK(ledger::try_charge(view, 0, 0));
    CHECK_FALSE(ledger::try_charge(view, 0, 1));
}

TEST_CASE("what others and the agent's overheads hold counts") {
    Files files;
    const auto first = files.view(0);
    const auto second = files.view(5);
    files.limits->overhead_mib[5] = 10;
    CHECK(ledger::try_charge(first, 100 * mib, 50 * mib));
    CHECK(ledger::try_charge(second, 100 * mib, 40 * mib));
    CHECK_FALSE(ledger::try_charge(first, 100 * mib, 1));
    CHECK(ledger::usage(first) == 100 * mib);
}

TEST_CASE("a measured overhead stands in the place of what was assumed for it") {
    Files files;
    const auto view = files.view(0);
    const auto other = files.view(1);
    ledger::charge(other, 60 * mib);
    files.ledger->slot[1].provisional = 50 * mib;
    CHECK(ledger::usage(view) == 60 * mib);  // not measured yet
    files.limits->overhead_mib[1] = 70;
    CHECK(ledger::usage(view) == 80 * mib);
    CHECK(ledger::held(view, 1) == 80 * mib);
    files.limits->overhead_mib[1] = 30;  // of whoever had the slot before, as far as is known here
    CHECK(ledger::usage(view) == 60 * mib);
    files.ledger->slot[1].provisional = UINT64_MAX;  // as a tenant may write
    files.limits->overhead_mib[1] = 70;
    CHECK(ledger::usage(view) == 60 * mib);
}

TEST_CASE("usage leaves out slots that are free") {
    Files files;
    const auto view = files.view(0);
    files.view(1);
    files.ledger->used[1] = 7;
    files.ledger->slot[1].state = DRAWBRIDGE_SLOT_FREE;
    CHECK(ledger::usage(view) == 0);
}

TEST_CASE("uncharging more than there is leaves zero and says so") {
    Files files;
    const auto view = files.view(0);
    ledger::charge(view, 5);
    CHECK_FALSE(ledger::uncharge(view, 6));
    CHECK(ledger::usage(view) == 0);
}

TEST_CASE("words that a tenant has written cannot wrap the sum") {
    Files files;
    const auto view = files.view(0);
    files.view(1);
    files.ledger->used[1] = UINT64_MAX - 3;
    CHECK_FALSE(ledger::try_charge(view, 100 * mib, mib));
    files.ledger->high_water = UINT32_MAX;
    CHECK(ledger::slots_in_use(*files.ledger) == DRAWBRIDGE_SLOTS);
}

TEST_CASE("absurd amounts are refused before they are added") {
    Files files;
    const auto view = files.view(0);
    CHECK_FALSE(ledger::try_charge(view, DRAWBRIDGE_UNLIMITED, UINT64_MAX));
    CHECK(files.ledger->used[0] == 0);
}

TEST_CASE("threads that race for the last bytes never get more than there are") {
    Files files;
    constexpr std::uint64_t limit = 1000;
    std::vector<std::thread> threads;
    std::vector<std::uint64_t> granted(8, 0);
    std::uint64_t worst = 0;
    for (std::uint32_t slot = 0; slot < 8; ++slot)
        files.view(slot);
    for (std::uint32_t slot = 0; slot < 8; ++slot)
        threads.emplace_back([&, slot] {
            const auto view = files.view(slot);
            for (int round = 0; round < 20000; ++round) {
                if (!ledger::try_charge(view, limit, 150)) continue;
                std::uint64_t held = __atomic_add_fetch(&granted[0], 150, __ATOMIC_SEQ_CST);
                if (held > limit) __atomic_store_n(&worst, held, __ATOMIC_SEQ_CST);
                __atomic_sub_fetch(&granted[0], 150, __ATOMIC_SEQ_CST);
                ledger::uncharge(view, 150);
            }
        });
    for (auto& thread : threads)
        thread.join();
    CHECK(worst == 0);
    CHECK(ledger::usage(files.view(0)) == 0);
}

TEST_CASE("what cannot fit is charged for no moment, so that nobody is refused for it") {
    Files files;
    constexpr std::uint64_t limit = 1000;
    const auto greedy = files.view(0);
    const auto modest = files.view(1);
    std::uint32_t over = 0;
    std::thread asking([&] {
        while (__atomic_load_n(&over, __ATOMIC_RELAXED) == 0)
            ledger::try_charge(greedy, limit, limit + 1);
    });
    int refused = 0;
    for (int round = 0; round < 50000; ++round) {
        if (ledger::try_charge(modest, limit, 150))
            ledger::uncharge(modest, 150);
        else
            ++refused;
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    asking.join();
    CHECK(refused == 0);
}

TEST_CASE("limits are read whole, or not at all") {
    Files files;
    ledger::Limits copy;
    files.limits->generation = 2;
    files.limits->memory_bytes = 7;
    CHECK(ledger::read_limits(*files.limits, copy));
    CHECK(copy.memory_bytes == 7);
    files.limits->generation = 3;
    files.limits->memory_bytes = 8;
    CHECK_FALSE(ledger::read_limits(*files.limits, copy));
    CHECK(copy.memory_bytes == 7);
}

TEST_CASE("linear memory is rounded as the driver backs it") {
    struct Row {
        std::uint64_t asked, charged;
    };
    for (const Row row : {Row{1, 512},
                          {512, 512},
                          {513, 1024},
                          {mib, mib},
                          {mib + 1, 2 * mib},
                          {2 * mib, 2 * mib},
                          {2 * mib + 1, 4 * mib}})
        CHECK(ledger::rounded_linear(row.asked) == row.charged);
}

TEST_CASE("reports add up, whatever is used") {
    ledger::Limits limits;
    limits.memory_bytes = 100;
    for (const std::uint64_t used : {0ull, 1ull, 99ull, 100ull, 101ull, 1000ull}) {
        const auto seen = ledger::report(limits, used, 1000, 1000);
        CHECK(seen.total == 100);
        CHECK(seen.free + seen.used == seen.total);
    }
    CHECK(ledger::report(limits, 0, 1000, 30).free == 30);
    limits.memory_bytes = DRAWBRIDGE_UNLIMITED;
    CHECK(ledger::report(limits, 10, 1000, 990).total == 1000);
}
