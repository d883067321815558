#include "kube/fleet.hpp"

#include <doctest/doctest.h>

using namespace drawbridge;
using kube::Fleet;
using kube::SliceFacts;
using Sizes = std::vector<std::int64_t>;

namespace {

SliceFacts slice(std::string pool, std::int64_t generation, std::int64_t count, Sizes sizes,
                 std::string driver = "d") {
    return {.driver = std::move(driver),
            .pool = std::move(pool),
            .generation = generation,
            .slice_count = count,
            .memory_bytes = std::move(sizes)};
}

base::Result<SliceFacts> read(std::string_view text) {
    const auto document = base::parse_json(std::string(text));
    REQUIRE(document);
    return kube::read_slice(document->root(), "memory");
}

constexpr std::int64_t mib = 1LL << 20U;

}  // namespace

TEST_CASE("a slice tells its pool and its memory sizes") {
    const auto facts = read(
        R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s"},"spec":{
        "driver":"gpu.drawbridge.dev","nodeName":"node-a","pool":{"name":"node-a","generation":3,"resourceSliceCount":2},
        "devices":[
          {"name":"a","attributes":{"uuid":{"string":"GPU-1"}},"capacity":{"memory":{"value":"81251Mi","requestPolicy":{"default":"1"}},"cores":{"value":"100"}}},
          {"name":"b","capacity":{"cores":{"value":"100"}}}, {"name":"c"}, {"name":"d","capacity":null},
          {"name":"e","capacity":{"memory":{"value":40960}}},
          {"name":"f","capacity":{"other.io/memory":{"value":"5Mi"}}}]}})");
    REQUIRE(facts);
    CHECK(facts->driver == "gpu.drawbridge.dev");
    CHECK(facts->pool == "node-a");
    CHECK(facts->generation == 3);
    CHECK(facts->slice_count == 2);
    CHECK(facts->memory_bytes == Sizes{81251 * mib, 40960});
}

TEST_CASE("an item of a list and a slice without devices are read") {
    const auto facts = read(
        R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":1},"sharedCounters":[]}})");
    REQUIRE(facts);
    CHECK(facts->generation == 0);
    CHECK(facts->memory_bytes.empty());
}

TEST_CASE("memory of which no share can be asked for is left out") {
    for (const auto* value : {"0", "-1Gi", "500m", "1500m", "10E", "-0", "1n"}) {
        CAPTURE(value);
        const auto facts =
            read(R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":1},"devices":[)"
                 R"({"capacity":{"memory":{"value":")" +
                 std::string(value) + R"("}}},{"capacity":{"memory":{"value":"1Gi"}}}]}})");
        REQUIRE(facts);
        CHECK(facts->memory_bytes == Sizes{1024 * mib});
    }
}

TEST_CASE("a slice that no API server lets in is refused with its place") {
    const std::string start =
        R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":1},"devices":)";
    const std::pair<std::string, std::string_view> rows[] = {
        {"[]", ""},
        {"null", ""},
        {R"({"kind":"Pod"})", "/kind"},
        {R"({"kind":1})", "/kind"},
        {R"({"kind":"ResourceSlice","apiVersion":"resource.k8s.io/v1beta1"})", "/apiVersion"},
        {"{}", "/spec/driver"},
        {R"({"spec":[]})", "/spec/driver"},
        {R"({"spec":{"driver":""}})", "/spec/driver"},
        {R"({"spec":{"driver":5}})", "/spec/driver"},
        {R"({"spec":{"driver":"d"}})", "/spec/pool/name"},
        {R"({"spec":{"driver":"d","pool":"p"}})", "/spec/pool/name"},
        {R"({"spec":{"driver":"d","pool":{"name":"p"}}})", "/spec/pool/resourceSliceCount"},
        {R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":0}}})",
         "/spec/pool/resourceSliceCount"},
        {R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":-1}}})",
         "/spec/pool/resourceSliceCount"},
        {R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":"1"}}})",
         "/spec/pool/resourceSliceCount"},
        {R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":1,"generation":-1}}})",
         "/spec/pool/generation"},
        {R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":1,"generation":1e30}}})",
         "/spec/pool/generation"},
        {R"({"spec":{"driver":"d","pool":{"name":"p","resourceSliceCount":1,"generation":"1"}}})",
         "/spec/pool/generation"},
        {start + "{}}}", "/spec/devices"},
        {start + "[1]}}", "/spec/devices/0"},
        {start + R"([{},{"capacity":[]}]}})", "/spec/devices/1/capacity"},
        {start + R"([{"capacity":{"memory":"1Gi"}}]}})", "/spec/devices/0/capacity/memory/value"},
        {start + R"([{"capacity":{"memory":{}}}]}})", "/spec/devices/0/capacity/memory/value"},
        {start + R"([{"capacity":{"memory":{"value":{}}}}]}})",
         "/spec/devices/0/capacity/memory/value"},
        {start + R"([{"capacity":{"memory":{"value":"1K"}}}]}})",
         "/spec/devices/0/capacity/memory/value"},
        {start + R"([{"capacity":{"memory":{"value":""}}}]}})",
         "/spec/devices/0/capacity/memory/value"},
    };
    for (const auto& [text, path] : rows) {
        CAPTURE(text);
        const auto facts = read(text);
        REQUIRE_FALSE(facts);
        CHECK(facts.error().kind == base::ErrorKind::invalid_input);
        CHECK(facts.error().path == path);
    }
    CHECK_FALSE(kube::read_slice(base::JsonView(), "memory"));
}

TEST_CASE("sizes are distinct and ascending, and of one driver") {
    Fleet fleet;
    CHECK(fleet.memory_sizes("d").empty());
    CHECK_FALSE(fleet.has_driver("d"));
    fleet.put("a", slice("a", 1, 1, {80, 40, 80}));
    fleet.put("b", slice("b", 7, 1, {24, 40}));
    fleet.put("c", slice("a", 2, 1, {99}, "other"));
    CHECK(fleet.memory_sizes("d") == Sizes{24, 40, 80});
    CHECK(fleet.memory_sizes("other") == Sizes{99});
    CHECK(fleet.memory_sizes("none").empty());
    CHECK(fleet.has_driver("other"));
    fleet.erase("c");
    fleet.erase("c");
    CHECK_FALSE(fleet.has_driver("other"));
    fleet.put("b", slice("b", 8, 1, {25}));
    CHECK(fleet.memory_sizes("d") == Sizes{25, 40, 80});
    fleet.clear();
    CHECK_FALSE(fleet.has_driver("d"));
}

TEST_CASE("the newest complete generation of a pool counts") {
    Fleet fleet;
    fleet.put("old-1", slice("p", 1, 1, {1}));
    fleet.put("new-1", slice("p", 2, 2, {20}));
    CHECK(fleet.memory_sizes("d") == Sizes{1});
    fleet.put("new-2", slice("p", 2, 2, {21}));
    CHECK(fleet.memory_sizes("d") == Sizes{20, 21});
    fleet.put("newest-1", slice("p", 3, 3, {30}));
    CHECK(fleet.memory_sizes("d") == Sizes{20, 21});
    fleet.erase("newest-1");
    fleet.erase("new-2");
    CHECK(fleet.memory_sizes("d") == Sizes{1});
}

TEST_CASE("while a new generation overwrites the old one, what is left of the old one counts") {
    Fleet fleet;
    fleet.put("s1", slice("p", 1, 2, {10}));
    CHECK(fleet.memory_sizes("d").empty());  // the first generation, not yet complete
    fleet.put("s2", slice("p", 1, 2, {11}));
    CHECK(fleet.memory_sizes("d") == Sizes{10, 11});
    fleet.put("s1", slice("p", 2, 2, {20}));
    CHECK(fleet.memory_sizes("d") == Sizes{11});
    fleet.put("s2", slice("p", 2, 2, {21}));
    CHECK(fleet.memory_sizes("d") == Sizes{20, 21});
}

TEST_CASE("slices that disagree on their number make no complete generation") {
    Fleet fleet;
    fleet.put("s1", slice("p", 1, 1, {10}));
    fleet.put("s2", slice("p", 1, 1, {11}));
    CHECK(fleet.memory_sizes("d").empty());
    CHECK(fleet.has_driver("d"));
}
