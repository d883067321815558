#include "agent/share/share_pages.hpp"

#include "preload/abi.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

using namespace drawbridge::agent;

namespace {

const std::string boot = "0b9d3f52-1111-4222-8333-444455556666";

ShareLimits limits() {
    return {.claim_uid = "6a2f41a3-c54c-4c45-a0d6-000000000001",
            .share_index = 3,
            .boot_id = boot,
            .device_uuid = "GPU-01020304-0506-0708-090a-0b0c0d0e0f10",
            .pci_bus_id = "0000:3b:00.0",
            .amounts = {std::int64_t{8000} << 20, 30, 1},
            .physical_bytes = std::int64_t{80} << 30,
            .config = {.priority = 1, .core_policy = CorePolicy::force}};
}

}  // namespace

TEST_CASE("the limits page says what the share was given") {
    const std::string page = limits_page(limits(), 2);
    REQUIRE(page.size() == DRAWBRIDGE_LIMITS_SIZE);
    drawbridge_limits read;
    std::memcpy(&read, page.data(), sizeof read);
    CHECK(read.header.magic == DRAWBRIDGE_LIMITS_MAGIC);
    CHECK(read.header.file_size == page.size());
    CHECK(read.generation == 2);
    for (int i = 0; i < 16; ++i)
        CHECK(read.device_uuid[i] == i + 1);
    CHECK(read.boot_id[0] == 0x0b);
    CHECK(read.boot_id[15] == 0x66);
    CHECK(std::string(read.pci_bus_id) == "0000:3b:00.0");
    CHECK(std::string(read.claim_uid) == limits().claim_uid);
    CHECK(read.share_index == 3);
    CHECK(read.memory_bytes == std::uint64_t{8000} << 20);
    CHECK(read.physical_bytes == std::uint64_t{80} << 30);
    CHECK(read.core_permille == 300);
    CHECK(read.policy == DRAWBRIDGE_POLICY_FORCE);
    CHECK(read.priority == 1);
    CHECK(read.busy_scale == 65536);
}

TEST_CASE("no cores and all cores are both no limit") {
    for (const auto& [cores, permille] :
         {std::pair{0, 1000U}, {1, 10U}, {99, 990U}, {100, 1000U}, {200, 1000U}}) {
        ShareLimits given = limits();
        given.amounts.cores = cores;
        drawbridge_limits read;
        std::memcpy(&read, limits_page(given, 2).data(), sizeof read);
        CHECK(read.core_permille == permille);
    }
}

TEST_CASE("a share that asks for no priority is outranked by one that asks for the high one") {
    for (const auto& [asked, priority] :
         {std::pair{std::optional<std::int64_t>(), 1U}, {0, 0U}, {1, 1U}}) {
        ShareLimits given = limits();
        given.config.priority = asked;
        const auto read = read_limits(limits_page(given, 2));
        REQUIRE(read);
        CHECK(read->priority == priority);
    }
}

TEST_CASE("who has a part of a card may not change its settings") {
    for (const auto& [mib, cores, denied] :
         {std::tuple{80 << 10, 100, false}, {80 << 10, 99, true}, {(80 << 10) - 1, 100, true}}) {
        ShareLimits given = limits();
        given.amounts = {std::int64_t{mib} << 20, cores, 10};
        given.physical_bytes += 1000;  // which is no whole MiB
        drawbridge_limits read;
        std::memcpy(&read, limits_page(given, 2).data(), sizeof read);
        CHECK(((read.flags & DRAWBRIDGE_DENY_SETTINGS) != 0) == denied);
        CHECK((read.flags & DRAWBRIDGE_CHARGE_OVERHEAD) != 0);
    }
}

TEST_CASE("what was written is read back, anything else is refused") {
    const std::string page = limits_page(limits(), 4);
    const auto back = read_limits(page);
    REQUIRE(back);
    CHECK(back->generation == 4);
    CHECK(back->memory_bytes == std::int64_t{8000} << 20);
    CHECK(back->boot_id == boot);
    CHECK_FALSE(read_limits(page.substr(1)));
    CHECK_FALSE(read_limits(fresh_ledger()));
    std::string other = page;
    other[8] = 2;
    CHECK_FALSE(read_limits(other));
}

TEST_CASE("a MIG device's UUID, with its instance numbers or without") {
    CHECK(uuid_bytes("MIG-01020304-0506-0708-090a-0b0c0d0e0f10")[15] == 16);
    CHECK(uuid_bytes("not a uuid") == uuid_bytes("not a uuid"));
    CHECK(uuid_bytes("not a uuid") != uuid_bytes("another"));
}
