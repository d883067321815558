#include "server/fleet_watch.hpp"
#include "server/template_watch.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

using namespace drawbridge;
using Sizes = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t mib = 1LL << 20U;

base::JsonDocument parse(std::string text) {
    auto document = base::parse_json(std::move(text));
    REQUIRE(document);
    return std::move(*document);
}

base::JsonDocument slice(const std::string& name, const std::string& memory) {
    return parse(
        R"({"metadata":{"name":")" + name +
        R"("},"spec":{"driver":"gpu.drawbridge.dev","pool":{"name":")" + name +
        R"(","generation":1,"resourceSliceCount":1},"devices":[{"name":"d","capacity":{"memory":{"value":")" +
        memory + R"("}}}]}})");
}

struct Fleet {
    std::vector<Sizes> published;
    std::vector<std::string> bad;
    server::FleetWatch watch{translate::Target{},
                             [this](const Sizes& sizes) { published.push_back(sizes); },
                             [this](const std::string& text) { bad.push_back(text); }};

    void put(const std::string& name, const std::string& memory) {
        watch.put(slice(name, memory).root());
    }
};

base::JsonDocument claim_template(const std::string& memory, const std::string& more = "") {
    return parse(
        R"({"metadata":{"namespace":"n","name":"t")" + more +
        R"(},"spec":{"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c",)"
        R"("allocationMode":"ExactCount","count":1,"capacity":{"requests":{"memory":")" +
        memory + R"("}}}}]}}}})");
}

server::ContentDigest digest_of(std::string memory) {
    kube::DeviceAlternative part{.device_class = "c"};
    part.capacity = {{"memory", std::move(memory)}};
    kube::ClaimSpec spec;
    spec.requests = {{.name = "gpu", .alternatives = {part}}};
    return server::content_digest(spec);
}

}  // namespace

TEST_CASE(
    "sizes are published with the complete list, an empty one as well, and then as they change") {
    Fleet fleet;
    fleet.watch.list_begun();
    fleet.put("a", "1Mi");
    CHECK(fleet.published.empty());
    fleet.watch.list_complete();
    fleet.put("a", "1Mi");
    fleet.put("b", "2Mi");
    fleet.watch.erase(slice("a", "1Mi").root());
    CHECK(fleet.published == std::vector<Sizes>{{mib}, {mib, 2 * mib}, {2 * mib}});

    Fleet empty;
    empty.watch.list_begun();
    empty.watch.list_complete();
    CHECK(empty.published == std::vector<Sizes>{{}});
}

TEST_CASE("a new list takes the place of all that was known, once it is complete") {
    Fleet fleet;
    fleet.watch.list_begun();
    fleet.put("a", "1Mi");
    fleet.watch.list_complete();
    fleet.watch.list_begun();
    fleet.put("half", "3Mi");
    fleet.watch.list_begun();  // the first try ended half way
    fleet.put("b", "2Mi");
    fleet.watch.list_complete();
    CHECK(fleet.published.back() == Sizes{2 * mib});
}

TEST_CASE("a slice that cannot be read is told and does not count any more") {
    Fleet fleet;
    fleet.watch.list_begun();
    fleet.put("a", "1Mi");
    fleet.put("b", "much");
    fleet.watch.list_complete();
    fleet.put("a", "more");
    CHECK(fleet.published == std::vector<Sizes>{{mib}, {}});
    REQUIRE(fleet.bad.size() == 2);
    CHECK(fleet.bad[0].starts_with("ResourceSlice b: /spec/devices/0"));
}

TEST_CASE("templates reach the cache by content and leave it when they go") {
    server::TemplateCache cache;
    server::TemplateWatch watch(cache);
    const auto holds = [&](const std::string& memory) {
        return cache.holds("n", "t", digest_of(memory), {});
    };
    watch.put(claim_template("4Gi").root());
    CHECK(holds("4096Mi"));
    watch.put(claim_template("5Gi").root());
    CHECK_FALSE(holds("4096Mi"));
    CHECK(holds("5Gi"));
    watch.erase(claim_template("5Gi").root());
    CHECK_FALSE(holds("5Gi"));
    watch.put(claim_template("4Gi").root());
    watch.put(claim_template("4Gi", R"(,"deletionTimestamp":"2026-01-01T00:00:00Z")").root());
    CHECK_FALSE(holds("4Gi"));
}

TEST_CASE("a template whose content is none of ours is forgotten") {
    server::TemplateCache cache;
    server::TemplateWatch watch(cache);
    watch.put(claim_template("4Gi").root());
    watch.put(
        parse(R"({"metadata":{"namespace":"n","name":"t"},"spec":{"spec":{"devices":{"requests":)"
              R"([{"name":"gpu","exactly":{"deviceClassName":"c","adminAccess":true}}]}}}})")
            .root());
    CHECK(cache.size() == 0);
}
