#include "preload/table.hpp"

#include "preload/vmm.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

using namespace preload;

TEST_CASE("a table holds what a map holds, over random changes") {
    auto table = std::make_unique<Table>();
    std::map<std::uint64_t, std::uint64_t> model;
    std::mt19937_64 random(7);
    for (int step = 0; step < 200000; ++step) {
        const std::uint64_t key = (random() % 5000 + 1) * 512;
        Record record;
        if (random() % 3 != 0) {
            CHECK(table->insert({key, random() % 1000, 0, 0, Kind::linear}));
            CHECK(table->find(key, record));
            model[key] = record.bytes;
        } else {
            const bool had = model.count(key) != 0;
            REQUIRE(table->take(key, record) == had);
            if (had) REQUIRE(record.bytes == model[key]);
            model.erase(key);
        }
    }
    for (const auto& [key, bytes] : model) {
        Record record;
        REQUIRE(table->find(key, record));
        REQUIRE(record.bytes == bytes);
    }
    table->forget();
}

TEST_CASE("removing by choice takes all that match and nothing else") {
    auto table = std::make_unique<Table>();
    for (std::uint64_t key = 1; key <= 10000; ++key)
        table->insert({key * 512, 1, key % 3, 0, Kind::linear});
    std::map<std::uint64_t, int> removed;
    table->remove_if([&](const Record& record) {
        if (record.owner == 1) ++removed[record.key];
        return record.owner == 1;
    });
    CHECK(removed.size() == 3334);
    Record record;
    for (std::uint64_t key = 1; key <= 10000; ++key)
        REQUIRE(table->find(key * 512, record) == (key % 3 != 1));
    table->forget();
}

TEST_CASE("addresses at any regular distance lie apart in the table") {
    for (unsigned shift = 8; shift <= 30; ++shift) {
        std::map<std::pair<std::uint64_t, std::uint64_t>, int> homes;
        int most = 0;
        for (std::uint64_t number = 0; number < 1000; ++number) {
            const std::uint64_t key = 0x7f0000000000 + (number << shift);
            most = std::max(most, ++homes[{Table::part_number(key), Table::home_of(key, 128)}]);
        }
        CAPTURE(shift);
        CHECK(most <= 4);
    }
}

TEST_CASE("key zero is no key") {
    auto table = std::make_unique<Table>();
    Record record;
    CHECK(table->insert({}));
    CHECK_FALSE(table->find(0, record));
}

TEST_CASE("one unmap takes the mappings that begin in its range, in any order of making") {
    MappingList list;
    for (const std::uint64_t at : {50u, 10u, 30u, 20u, 40u}) {
        REQUIRE(list.promise());
        list.keep({at, 10, {at * 100, 1}});
    }
    std::uint64_t sum = 0;
    list.remove(20, 20, 9, [&](const Mapping& mapping) { sum += mapping.memory.handle; });
    CHECK(sum == 5000);
    CHECK(list.size() == 3);
    list.remove(0, 100, 9, [&](const Mapping& mapping) { sum += mapping.memory.handle; });
    CHECK(sum == 15000);
    CHECK(list.size() == 0);
    list.forget();
}

TEST_CASE("an unmap takes no mapping that came after its number, and what came last is found") {
    MappingList list;
    for (const std::uint64_t number : {1u, 2u, 3u}) {
        REQUIRE(list.promise());
        list.keep({number == 1 ? 5u : 10u, 10, {number, 1}, number});
    }
    CHECK(list.memory_at(10).handle == 3);
    std::uint64_t sum = 0;
    list.remove(0, 100, 2, [&](const Mapping& mapping) { sum += mapping.memory.handle; });
    CHECK(sum == 3);
    CHECK(list.size() == 1);
    CHECK(list.memory_at(19).handle == 3);
    list.forget();
}

TEST_CASE("an address is found in the mapping that it lies in, not in a gap") {
    MappingList list;
    for (const std::uint64_t at : {100u, 300u}) {
        REQUIRE(list.promise());
        list.keep({at, 100, {at, 1}});
    }
    const std::pair<std::uint64_t, std::uint64_t> places[] = {
        {99, 0}, {100, 100}, {199, 100}, {200, 0}, {299, 0}, {300, 300}, {399, 300}, {400, 0}};
    for (const auto& [address, handle] : places)
        CHECK(list.memory_at(address).handle == handle);
    list.forget();
    CHECK(list.memory_at(100).life == 0);
}

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
namespace {

constexpr long long trap_flag = 0x100;
MappingList* growing;
bool is_grown;
int steps;
int losses;  // children that lost memory which was not the list's

// At each instruction of a growth another thread maps memory, and forks.
void fork_here(int, siginfo_t*, void* where) {
    if (is_grown) {
        static_cast<ucontext_t*>(where)->uc_mcontext.gregs[REG_EFL] &= ~trap_flag;
        return;
    }
    ++steps;
    constexpr std::size_t size = 8192;
    unsigned char pages[size / 4096];
    void* other = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const pid_t child = fork();
    if (child == 0) {
        growing->forget();
        _exit(mincore(other, size, pages) == 0 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    losses += status != 0;
    munmap(other, size);
}

}  // namespace

TEST_CASE("a child that is forked while a list grows unmaps nothing of others") {
    MappingList list;
    growing = &list;
    for (std::uint64_t number = 1; list.size() < 128; ++number) {
        REQUIRE(list.promise());
        list.keep({number * 4096, 4096, {number, 1}, number});
    }
    struct sigaction handler {};
    struct sigaction before {};
    handler.sa_sigaction = fork_here;
    handler.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &handler, &before);
    asm volatile("pushfq; orq %0, (%%rsp); popfq" : : "i"(trap_flag) : "memory", "cc");
    const bool promised = list.promise();
    is_grown = true;
    asm volatile("nop; nop");
    sigaction(SIGTRAP, &before, nullptr);
    CHECK(promised);
    CHECK(steps > 50);
    CHECK(losses == 0);
    list.forget();
}
#endif
