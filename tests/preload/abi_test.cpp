// The layout of the two shared files, frozen: an old library meets a new agent and the other way
// round.
#include "preload/abi.h"

#include <doctest/doctest.h>

#include <cstddef>

TEST_CASE("the head of both files never changes") {
    CHECK(offsetof(drawbridge_header, magic) == 0);
    CHECK(offsetof(drawbridge_header, major) == 8);
    CHECK(offsetof(drawbridge_header, minor) == 10);
    CHECK(offsetof(drawbridge_header, file_size) == 12);
    CHECK(DRAWBRIDGE_LIMITS_MAGIC == 0x53544d494c424400ull);
    CHECK(DRAWBRIDGE_LEDGER_MAGIC == 0x524744454c424400ull);
}

TEST_CASE("every field of the limits has its place") {
    CHECK(offsetof(drawbridge_limits, generation) == 16);
    CHECK(offsetof(drawbridge_limits, device_uuid) == 24);
    CHECK(offsetof(drawbridge_limits, boot_id) == 40);
    CHECK(offsetof(drawbridge_limits, pci_bus_id) == 56);
    CHECK(offsetof(drawbridge_limits, claim_uid) == 72);
    CHECK(offsetof(drawbridge_limits, share_index) == 112);
    CHECK(offsetof(drawbridge_limits, flags) == 116);
    CHECK(offsetof(drawbridge_limits, memory_bytes) == 120);
    CHECK(offsetof(drawbridge_limits, physical_bytes) == 128);
    CHECK(offsetof(drawbridge_limits, context_bytes) == 136);
    CHECK(offsetof(drawbridge_limits, core_permille) == 144);
    CHECK(offsetof(drawbridge_limits, policy) == 148);
    CHECK(offsetof(drawbridge_limits, priority) == 152);
    CHECK(offsetof(drawbridge_limits, busy_scale) == 156);
    CHECK(offsetof(drawbridge_limits, heartbeat_ns) == 160);
    CHECK(offsetof(drawbridge_limits, contended_until_ns) == 168);
    CHECK(offsetof(drawbridge_limits, paused_until_ns) == 176);
    CHECK(offsetof(drawbridge_limits, overhead_mib) == 4096);
    CHECK(offsetof(drawbridge_limits, util_permille) == 8192);
    CHECK(sizeof(drawbridge_limits) == 16384);
}

TEST_CASE("every field of the ledger has its place") {
    CHECK(offsetof(drawbridge_ledger, high_water) == 16);
    CHECK(offsetof(drawbridge_ledger, arbiter) == 20);
    CHECK(offsetof(drawbridge_ledger, tat_ns) == 64);
    CHECK(offsetof(drawbridge_ledger, used) == 4096);
    CHECK(offsetof(drawbridge_ledger, slot) == 12288);
    CHECK(sizeof(drawbridge_ledger) == 262144);
}

TEST_CASE("every field of a slot has its place") {
    CHECK(offsetof(drawbridge_slot, state) == 0);
    CHECK(offsetof(drawbridge_slot, pid) == 4);
    CHECK(offsetof(drawbridge_slot, start_time) == 8);
    CHECK(offsetof(drawbridge_slot, pid_namespace) == 16);
    CHECK(offsetof(drawbridge_slot, in_flight) == 24);
    CHECK(offsetof(drawbridge_slot, flags) == 28);
    CHECK(offsetof(drawbridge_slot, provisional) == 32);
    CHECK(offsetof(drawbridge_slot, gauge) == 40);
    CHECK(offsetof(drawbridge_slot, allocations) == 96);
    CHECK(offsetof(drawbridge_slot, busy_ns) == 136);
    CHECK(offsetof(drawbridge_slot, denied) == 144);
    CHECK(offsetof(drawbridge_slot, driver_version) == 188);
    CHECK(sizeof(drawbridge_slot) == 192);
    CHECK(DRAWBRIDGE_GAUGES == 7);
}
