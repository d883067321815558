#include "agent/claim/limit_rules.hpp"

#include "agent/node_settings.hpp"
#include "agent/share/share_folders.hpp"
#include "preload/abi.h"
#include "tests/agent/faulty_files.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge::agent;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

ClaimRecord record() {
    return {.claim = {"team-a", "claim-1", "uid"}, .pods = {"pod-1", "pod-2"}};
}

LimitRule rule(std::optional<std::int64_t> memory, std::optional<std::int64_t> cores) {
    return {.name_space = "team-a", .memory_bytes = memory, .cores = cores};
}

std::vector<LimitRule> rules_in(const std::string& limits) {
    const auto read = parse_node_settings(
        "apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nlimits:\n" + limits, "node");
    REQUIRE(read);
    return read->rules.limits;
}

std::string fault_of(const std::string& limits) {
    const auto read = parse_node_settings(
        "apiVersion: drawbridge.dev/v1\nkind: AgentSettings\nlimits:\n" + limits, "node");
    REQUIRE_FALSE(read);
    return read.error().path + " " + read.error().message;
}

ShareLimits limits(std::int64_t memory, std::int64_t cores) {
    return {.claim_uid = "uid",
            .boot_id = "01020304-0506-0708-090a-0b0c0d0e0f10",
            .device_uuid = "GPU-a",
            .amounts = {memory, cores, 1},
            .physical_bytes = 8 * gib};
}

std::uint64_t generation_of(const FaultyFiles& files) {
    return read_limits(files.all().at("/shares/s/limits"))->generation;
}

}  // namespace

TEST_CASE("a share is held to the least of the rules for it, and never to more than it was given") {
    const Amounts given{4 * gib, 50, 1};
    CHECK(held_to(given, {}, record()) == given);
    CHECK(held_to(given, {{rule(2 * gib, 30)}}, record()) == Amounts{2 * gib, 30, 1});
    CHECK(held_to(given, {{rule(8 * gib, 80)}}, record()) == given);
    const std::vector<LimitRule> two = {rule(3 * gib, std::nullopt), rule(2 * gib, 20)};
    CHECK(held_to(given, two, record()) == Amounts{2 * gib, 20, 1});
    const Amounts unlimited{gib, 0, 1};
    CHECK(held_to(unlimited, {{rule(std::nullopt, 40)}}, record()).cores == 40);
    CHECK(held_to(unlimited, {{rule(gib / 2, std::nullopt)}}, record()).cores == 0);
}

TEST_CASE("a rule is for the claims and pods that it names") {
    const Amounts given{4 * gib, 50, 1};
    LimitRule one = rule(gib, std::nullopt);
    const auto holds = [&] { return held_to(given, {{one}}, record()).memory_bytes == gib; };
    CHECK(holds());
    one.pod = "pod-2";
    CHECK(holds());
    one.claim = "claim-1";
    CHECK(holds());
    one.claim = "claim-2";
    CHECK_FALSE(holds());
    one.claim = "";
    one.pod = "pod-3";
    CHECK_FALSE(holds());
    one.pod = "";
    one.name_space = "team-b";
    CHECK_FALSE(holds());
}

TEST_CASE("rules are read, and a wrong one is refused with its place") {
    const auto rules =
        rules_in("- {namespace: a, memory: 8Gi}\n- {namespace: b, pod: p, claim: c, cores: 30}\n");
    REQUIRE(rules.size() == 2);
    CHECK(rules[0] == LimitRule{.name_space = "a", .memory_bytes = 8 * gib});
    CHECK(rules[1] == LimitRule{.name_space = "b", .pod = "p", .claim = "c", .cores = 30});
    const std::pair<const char*, const char*> wrong[] = {
        {"- {memory: 1Gi}\n", "/limits/0/namespace"},
        {"- {namespace: a}\n", "/limits/0 "},
        {"- {namespace: a, memory: 0}\n", "/limits/0/memory"},
        {"- {namespace: a, cores: 0}\n", "/limits/0/cores"},
        {"- {namespace: a, cores: 101}\n", "/limits/0/cores"},
        {"- {namespace: a, cores: 1}\n- {namespace: a, cores: 1, pods: b}\n", "/limits/1"}};
    for (const auto& [text, place] : wrong)
        CHECK_MESSAGE(fault_of(text).find(place) != std::string::npos, fault_of(text));
}

TEST_CASE("limits change in place, and what readers do not guard stays as it is") {
    FaultyFiles files;
    ShareFolders folders(files, "/shares");
    REQUIRE(folders.create("s", limits(4 * gib, 0)));
    std::string page = files.all().at("/shares/s/limits");
    page[offsetof(drawbridge_limits, heartbeat_ns)] = 7;
    page[offsetof(drawbridge_limits, util_permille)] = 9;
    files.put("/shares/s/limits", page);
    const auto same = folders.change("s", limits(4 * gib, 0));
    CHECK((same && !*same));
    CHECK(generation_of(files) == 2);
    const auto changed = folders.change("s", limits(gib, 30));
    CHECK((changed && *changed));
    CHECK(generation_of(files) == 4);
    const std::string now = files.all().at("/shares/s/limits");
    CHECK(read_limits(now)->memory_bytes == gib);
    CHECK(read_limits(now)->core_permille == 300);
    CHECK(now[offsetof(drawbridge_limits, heartbeat_ns)] == 7);
    CHECK(now[offsetof(drawbridge_limits, util_permille)] == 9);
}

TEST_CASE("a change that was left anywhere is ended by the next one") {
    for (int crash = 0; crash < 3; ++crash) {
        for (const bool before : {false, true}) {
            CAPTURE(crash);
            CAPTURE(before);
            FaultyFiles files;
            ShareFolders folders(files, "/shares");
            REQUIRE(folders.create("s", limits(4 * gib, 0)));
            files.crash_after = crash;
            files.crash_before = before;
            CHECK_THROWS_AS(static_cast<void>(folders.change("s", limits(gib, 30))), Crash);
            files.crash_after = -1;
            // Readers take an even generation to mean whole fields.
            const auto half = read_limits(files.all().at("/shares/s/limits"));
            REQUIRE(half);
            if (half->generation % 2 == 0)
                CHECK(half->memory_bytes == (half->generation == 2 ? 4 * gib : gib));
            REQUIRE(folders.change("s", limits(gib, 30)));
            CHECK(generation_of(files) == 4);
            CHECK(read_limits(files.all().at("/shares/s/limits"))->memory_bytes == gib);
        }
    }
}
