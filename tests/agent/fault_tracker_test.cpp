// Rules by which faults of a GPU come and go.

#include "agent/device/fault_tracker.hpp"

#include "tests/agent/fault_keys.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge::agent;

TEST_CASE("a fault rises at once and falls after a row of good looks") {
    FaultTracker tracker;
    CHECK(tracker.look("a", {}).empty());
    CHECK(keys(tracker.look("a", {.xids = {62}})) == std::vector<std::string>{"xid"});
    for (int i = 1; i < FaultTracker::proof; ++i)
        CHECK_FALSE(tracker.look("a", {}).empty());
    CHECK(tracker.look("a", {}).empty());
}

TEST_CASE("a bad look in between starts the row anew") {
    FaultTracker tracker;
    static_cast<void>(tracker.look("a", {.answers = false}));
    for (int i = 1; i < FaultTracker::proof; ++i)
        static_cast<void>(tracker.look("a", {}));
    static_cast<void>(tracker.look("a", {.answers = false}));
    CHECK(keys(tracker.look("a", {})) == std::vector<std::string>{"gpu-lost"});
}

TEST_CASE("what a program did wrong taints nothing, and is counted") {
    FaultTracker tracker;
    CHECK(tracker.look("a", {.xids = {13, 31, 43, 45, 68, 109}}).empty());
    CHECK(tracker.xids().at({"a", 31}) == 1);
}

TEST_CASE("faults of different kinds stand beside each other, and one GPU's are its own") {
    FaultTracker tracker;
    const auto faults = tracker.look("a", {.reset_required = true, .xids = {79, 62}});
    CHECK(keys(faults) == std::vector<std::string>{"gpu-lost", "reset-required", "xid"});
    CHECK(faults[0].effect == TaintEffect::no_execute);
    CHECK(tracker.look("b", {}).empty());
    // A lesser event later takes nothing back.
    CHECK(keys(tracker.look("a", {.xids = {31}})).size() == 3);
}

TEST_CASE("a GPU that reports nothing is said to be unmonitored, which keeps nobody away") {
    FaultTracker tracker;
    const auto faults = tracker.look("a", {.monitored = false});
    REQUIRE(keys(faults) == std::vector<std::string>{"unmonitored"});
    CHECK(faults[0].effect == TaintEffect::none);
}
