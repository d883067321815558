#include "agent/share/device_processes.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace drawbridge::agent;

namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t space = 0xF0000001;

/// A process that holds 100 MiB, and what the driver says of it.
struct Case {
    Case() {
        LedgerSlot slot{.used = 100 * mib};
        slot.content.state = DRAWBRIDGE_SLOT_LIVE;
        slot.content.pid = 7;
        slot.content.start_time = 50;
        slot.content.pid_namespace = space;
        before = after = {slot};
        processes = {{"GPU-a", 4711, 618 * mib}, {"GPU-a", 7, 5 * mib}};
        table.processes = {{4711, 7, space, 50, false}, {7, 7, space + 1, 50, false}};
    }
    [[nodiscard]] Overhead now(const Overhead& written = {}) const {
        return overhead_of({before, after, processes, table}, 0, written);
    }

    LedgerCopy before;
    LedgerCopy after;
    std::vector<DeviceProcess> processes;
    ProcessTable table;
};

}  // namespace

TEST_CASE("overhead is what the driver counts and the ledger does not, in whole MiB") {
    Case one;
    CHECK(one.now().mib == 518);
    one.processes[0].bytes += 1;
    CHECK(one.now().mib == 519);
    one.processes[0].bytes = 99 * mib;
    CHECK(one.now().mib == 0);
    one.processes[0].bytes = UINT64_MAX;
    CHECK(one.now().mib <= UINT32_MAX / 2);
}

TEST_CASE("what the library assumed is measured in its place") {
    Case one;
    one.before[0].content.provisional = one.after[0].content.provisional = 30 * mib;
    CHECK(one.now().mib == 548);
    one.before[0].content.provisional = one.after[0].content.provisional = UINT64_MAX;
    CHECK(one.now().mib == 618);
}

TEST_CASE("a further context is noticed, though the figure is that of the first") {
    Case one;
    Overhead written = one.now(one.now());
    CHECK(written.mib == 518);
    one.before[0].used = one.after[0].used = 618 * mib;  // a second one is there, the first is gone
    one.before[0].content.provisional = one.after[0].content.provisional = 518 * mib;
    written = one.now(written);
    CHECK(written.mib == 519);
    CHECK(one.now(written).mib == 519);  // until the process looks
    one.before[0].used = one.after[0].used = 100 * mib;
    one.before[0].content.provisional = one.after[0].content.provisional = 0;
    CHECK(one.now(written).mib == 518);
}

TEST_CASE("a process with two slots is charged once, on the first, for what neither counts") {
    Case one;
    one.after.push_back(one.after[0]);
    one.after[1].used = 300 * mib;
    one.after[1].content.provisional = 50 * mib;  // which it keeps
    one.before = one.after;
    CHECK(is_first_of_owner(one.after, 0));
    CHECK_FALSE(is_first_of_owner(one.after, 1));
    CHECK(one.now().mib == 218);
    const OverheadView view{one.before, one.after, one.processes, one.table};
    CHECK(overhead_of(view, 1, {.mib = 9}).mib == 0);
    SUBCASE("while the other allocates, the figure stays") {
        one.before[1].used = 0;
        CHECK(one.now({.mib = 77}).mib == 77);
    }
    SUBCASE("another process's slot is its own") {
        one.before[1].content.start_time = one.after[1].content.start_time = 51;
        CHECK(is_first_of_owner(one.after, 1));
        CHECK(one.now().mib == 518);
    }
    SUBCASE("the first has ended") {
        one.before[0].content.state = one.after[0].content.state = DRAWBRIDGE_SLOT_FREE;
        CHECK(is_first_of_owner(one.after, 1));
    }
}

TEST_CASE("what cannot be measured stays as it was") {
    Case one;
    const Overhead before{.mib = 77, .owner = one.after[0].owner()};
    SUBCASE("the driver does not show it") {
        one.processes.clear();
    }
    SUBCASE("the agent does not see it") {
        one.table.processes.clear();
    }
    SUBCASE("it allocated meanwhile") {
        one.before[0].used = 90 * mib;
    }
    SUBCASE("it is about to") {
        one.after[0].content.in_flight = 1;
    }
    SUBCASE("it has managed memory") {
        one.after[0].content.gauge[DRAWBRIDGE_GAUGE_MANAGED] = 1;
    }
    SUBCASE("it has just come") {
        one.before.clear();
    }
    CHECK(one.now(before).mib == 77);
    CHECK(one.now({.mib = 77}).mib == 77);  // an agent that was started anew
}

TEST_CASE("a slot that was freed or has another owner does not keep its figure") {
    Case one;
    Overhead before{.mib = 518, .owner = one.after[0].owner()};
    before.owner->start_time = 1;
    SUBCASE("not measured yet") {
        one.processes.clear();
        CHECK(one.now(before).mib == 0);
    }
    SUBCASE("the same figure would not be noticed, where something is assumed") {
        CHECK(one.now(before).mib == 518);
        one.before[0].content.provisional = one.after[0].content.provisional = 50 * mib;
        before.mib = 568;
        CHECK(one.now(before).mib == 569);
    }
    SUBCASE("freed") {
        one.after[0].content.state = DRAWBRIDGE_SLOT_FREE;
        CHECK(one.now(before).mib == 0);
        CHECK_FALSE(one.now(before).owner);
    }
}

TEST_CASE("the shares of a container are those that it has mounted") {
    const char* mounts =
        "1 2 0:3 / / rw - overlay overlay rw\n"
        "5 1 8:1 /kubelet/shares/a-0 /run/drawbridge/shares/a-0 ro,nosuid - ext4 /dev/sda rw\n"
        "6 1 8:1 /kubelet/shares/a-1/ledger /run/drawbridge/shares/a-1/ledger rw - ext4 x rw\n"
        "7 1 8:1 /kubelet/shares/a-1/limits /run/drawbridge/shares/a-1/limits rw - ext4 x rw\n"
        "8 1 8:1 /x /run/drawbridge/lib rw - ext4 x rw\n"
        "9 1 8:1 /run/drawbridge/shares/b-0 /elsewhere rw - ext4 x rw";
    CHECK(shares_in_mounts(mounts) == std::vector<std::string>{"a-0", "a-1"});
    CHECK(shares_in_mounts("").empty());
    CHECK(shares_in_mounts("\n\n a\n/run/drawbridge/shares/x-0\n").empty());
}

TEST_CASE("a process owns a slot of its number, namespace and start time") {
    const Case one;
    CHECK(owns_slot(one.after, one.table.processes[0]));
    CHECK_FALSE(owns_slot(one.after, one.table.processes[1]));
    LedgerCopy freed = one.after;
    freed[0].content.state = DRAWBRIDGE_SLOT_FREE;
    CHECK_FALSE(owns_slot(freed, one.table.processes[0]));
}
