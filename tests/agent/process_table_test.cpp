#include "agent/share/process_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <unistd.h>
#include <vector>

using namespace drawbridge::agent;

namespace {

constexpr std::uint64_t root = 0xEFFFFFFC;
constexpr std::uint64_t container = 0xF0000123;

ProcessTable table_of(Process process) {
    return {.own_namespace = root, .processes = {process}};
}

const Process worker = {
    .pid = 4711, .inner_pid = 7, .pid_namespace = container, .start_time = 1000};
const SlotOwner owner = {.pid = 7, .start_time = 1000, .pid_namespace = container};

}  // namespace

TEST_CASE("some processes are read alone, and those that are gone are left out") {
    const auto self = static_cast<std::uint32_t>(getpid());
    const std::uint32_t none = 1U << 30U;
    const ProcessTable few = read_processes(std::vector{self, none});
    REQUIRE(few.processes.size() == 1);
    const ProcessTable all = read_process_table();
    CHECK(std::ranges::find(all.processes, few.processes[0]) != all.processes.end());
    CHECK(few.own_namespace == all.own_namespace);
}

TEST_CASE("an owner lives while a process of its namespace, number and start time is there") {
    CHECK(owner_state(owner, table_of(worker)) == OwnerState::alive);
    CHECK(owner_state(owner, {.own_namespace = root}) == OwnerState::gone);
    Process other = worker;
    SUBCASE("its number was given to another") {
        other.start_time = 1001;
    }
    SUBCASE("another container has the same number") {
        other.pid_namespace = container + 1;
    }
    SUBCASE("the agent's own number for another is the same") {
        other.inner_pid = 1;
        other.pid = 7;
    }
    SUBCASE("only its exit status is left") {
        other.has_ended = true;
    }
    CHECK(owner_state(owner, table_of(other)) == OwnerState::gone);
}

TEST_CASE("a process whose namespace is not known, or an owner without start time, counts") {
    Process hidden = worker;
    hidden.pid_namespace = 0;
    CHECK(owner_state(owner, table_of(hidden)) == OwnerState::alive);
    SlotOwner without = owner;
    without.start_time = 0;
    CHECK(owner_state(without, table_of(worker)) == OwnerState::alive);
}

TEST_CASE("what the agent cannot see is never gone") {
    SlotOwner hidden = owner;
    ProcessTable table{.own_namespace = root};
    SUBCASE("a kernel of its own numbers from one") {
        hidden.pid_namespace = 3;
    }
    SUBCASE("a kernel without locks") {
        hidden.without_locks = true;
    }
    SUBCASE("noise") {
        hidden.pid = 0;
    }
    SUBCASE("an agent in a container") {
        table.own_namespace = container + 1;
    }
    SUBCASE("a table that broke off") {
        table.own_namespace = 0;
    }
    CHECK(owner_state(hidden, table) == OwnerState::unknown);
}

TEST_CASE("an agent on a node that is a container itself sees those of its containers") {
    Process other{.pid = 1, .inner_pid = 1, .pid_namespace = container + 7, .start_time = 1};
    ProcessTable table{.own_namespace = container + 7, .processes = {other}};
    CHECK(owner_state(owner, table) == OwnerState::unknown);  // it may be a container of its own
    other.pid_namespace = 0;
    table.processes.push_back(other);
    CHECK(owner_state(owner, table) == OwnerState::unknown);
    other.pid_namespace = container + 8;
    table.processes.push_back(other);
    CHECK(owner_state(owner, table) == OwnerState::gone);
    SlotOwner hidden = owner;
    hidden.pid_namespace = 3;
    CHECK(owner_state(hidden, table) == OwnerState::unknown);
    table.processes.push_back(worker);
    CHECK(owner_state(owner, table) == OwnerState::alive);
}

TEST_CASE("an agent in a container sees those beside it") {
    CHECK(owner_state(owner, {.own_namespace = container}) == OwnerState::gone);
}

TEST_CASE("stat is read whatever a process calls itself") {
    Process process;
    REQUIRE(read_stat("12 (a) S 1 (b) R 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987 1 2\n",
                      process));
    CHECK(process.start_time == 987);
    CHECK_FALSE(process.has_ended);
    const char* zombies[] = {"12 (x) Z 1 12 12 0 -1 0 1 2 3 4 5 6 7 8 20 0 1 0 987 1 2",
                             "12 (x) Z 1 12 12 0 -1 0 1 2 3 4 5 6 7 8 20 0 2 0 987 1 2"};
    REQUIRE(read_stat(zombies[0], process));
    CHECK(process.has_ended);
    REQUIRE(read_stat(zombies[1], process));  // other threads go on
    CHECK_FALSE(process.has_ended);
    CHECK_FALSE(read_stat("", process));
    CHECK_FALSE(read_stat("12 (x) S 1 2", process));
}

TEST_CASE("the innermost number is the last of NSpid") {
    CHECK(inner_pid_of("Name:\tx\nNSpid:\t4711\t7\nNSsid:\t1\n") == 7);
    CHECK(inner_pid_of("Name:\tx\nNSpid:\t4711\n") == 4711);
    CHECK(inner_pid_of("Name:\tx\n") == 0);
}

TEST_CASE("this test is in the table of this machine") {
    const ProcessTable table = read_process_table();
    const auto pid = static_cast<std::uint32_t>(::getpid());
    const Process* found = nullptr;
    for (const Process& process : table.processes) {
        if (process.pid == pid) found = &process;
    }
    REQUIRE(found != nullptr);
    CHECK(found->pid_namespace == table.own_namespace);
    CHECK(found->start_time > 0);
    const SlotOwner self{found->inner_pid, found->start_time, found->pid_namespace, false};
    CHECK(owner_state(self, table) == OwnerState::alive);
}
