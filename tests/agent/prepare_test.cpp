#include "agent/prepare/prepare.hpp"

#include "agent/claim/claim_facts.hpp"
#include "agent/claim/share_config.hpp"
#include "agent/prepare/inventory_keep.hpp"
#include "base/json.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;
using drawbridge::base::parse_json;
using nlohmann::json;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

Inventory inventory() {
    auto made = Inventory::make(
        {{.uuid = "GPU-a", .memory_bytes = 80 * gib}, {.uuid = "GPU-b", .memory_bytes = 40 * gib}},
        {}, {});
    REQUIRE(made);
    return *made;
}

std::string name_of(const std::string& uuid) {
    return device_name({.uuid = uuid});
}

ClaimFacts claim(std::initializer_list<AllocatedDevice> devices, const std::string& uid = "u") {
    return {.claim = {"ns", "c-" + uid, uid},
            .allocated = true,
            .consumers = {{"pod", "p"}},
            .devices = devices};
}

AllocatedDevice share(const std::string& uuid, Amounts amounts, const std::string& id = "s") {
    return {.request = "gpu",
            .pool = "node",
            .device = name_of(uuid),
            .share_id = id,
            .consumed = amounts};
}

ShareConfig config(std::optional<std::int64_t> priority, std::optional<CorePolicy> policy) {
    return {priority, policy};
}

}  // namespace

TEST_CASE("shares keep the order and the amounts of the allocation") {
    const Inventory devices = inventory();
    const auto shares = plan_prepare(
        claim({share("GPU-b", {gib, 30, 1}, "1"), share("GPU-a", {2 * gib, 0, 1}, "2")}),
        {"node", devices, {}});
    REQUIRE(shares);
    REQUIRE(shares->size() == 2);
    CHECK((*shares)[0].uuid == "GPU-b");
    CHECK((*shares)[0].amounts == Amounts{gib, 30, 1});
    CHECK((*shares)[1].share_id == "2");
}

TEST_CASE("sums are checked in each capacity, within one claim too") {
    const Inventory devices = inventory();
    struct Row {
        Amounts held;
        Amounts asked;
        bool fits;
    };
    const Row rows[] = {{{40 * gib, 50, 5}, {40 * gib, 50, 5}, true},
                        {{40 * gib, 0, 1}, {40 * gib + (1 << 20), 0, 1}, false},
                        {{gib, 60, 1}, {gib, 41, 1}, false},
                        {{gib, 0, 10}, {gib, 0, 1}, false}};
    for (const Row& row : rows) {
        const ClaimRecord other{
            .claim = {"ns", "other", "o"},
            .state = ClaimState::started,
            .shares = {{.device = name_of("GPU-a"), .uuid = "GPU-a", .amounts = row.held}}};
        const auto planned =
            plan_prepare(claim({share("GPU-a", row.asked)}), {"node", devices, {other}});
        CHECK(planned.has_value() == row.fits);
        if (!planned) {
            CHECK(planned.error().kind == ErrorKind::conflict);
            CHECK(planned.error().message.find("ns/other") != std::string::npos);
        }
        const auto both =
            plan_prepare(claim({share("GPU-a", row.held, "1"), share("GPU-a", row.asked, "2")}),
                         {"node", devices, {}});
        CHECK(both.has_value() == row.fits);
    }
}

TEST_CASE("tombstones, administrators and the claim itself do not count") {
    const Inventory devices = inventory();
    const std::vector<Share> all = {
        {.device = name_of("GPU-a"), .uuid = "GPU-a", .amounts = {80 * gib, 100, 10}}};
    std::vector<Share> admin = all;
    admin.front().admin = true;
    const ClaimRecords records = {
        {.claim = {"ns", "gone", "g"}, .state = ClaimState::unprepared, .shares = all},
        {.claim = {"ns", "admin", "a"}, .state = ClaimState::started, .shares = admin},
        {.claim = {"ns", "self", "u"}, .state = ClaimState::started, .shares = all}};
    CHECK(plan_prepare(claim({share("GPU-a", {80 * gib, 100, 10})}), {"node", devices, records}));
}

TEST_CASE("an allocation without a share ID is the whole device") {
    const Inventory devices = inventory();
    AllocatedDevice whole = share("GPU-a", {});
    whole.share_id.clear();
    whole.consumed.reset();
    const auto shares = plan_prepare(claim({whole}), {"node", devices, {}});
    REQUIRE(shares);
    CHECK(shares->front().amounts == Amounts{80 * gib, 100, 10});
}

TEST_CASE("stored shares are compared in identity and order") {
    const std::vector<Share> shares = {
        {.request = "gpu", .pool = "node", .device = name_of("GPU-a"), .share_id = "s"}};
    CHECK(is_same_allocation(shares, claim({share("GPU-a", {})})));
    CHECK_FALSE(is_same_allocation(shares, claim({share("GPU-b", {})})));
    CHECK_FALSE(is_same_allocation(shares, claim({share("GPU-a", {}, "t")})));
    CHECK_FALSE(is_same_allocation(shares, claim({})));
}

TEST_CASE("stored shares are not made anew on a GPU that is lost or another one") {
    const std::vector<Share> shares = {
        {.request = "gpu", .pool = "node", .device = name_of("GPU-a"), .uuid = "GPU-a"}};
    CHECK(check_devices(shares, inventory()));
    std::vector<Share> other = shares;
    other.front().uuid = "GPU-c";
    CHECK_FALSE(check_devices(other, inventory()));
    for (const std::string_view key : {lost_key, driver_key}) {
        const auto faulty = Inventory::make(
            {{.uuid = "GPU-a", .memory_bytes = gib, .faults = {{.key = std::string(key)}}}}, {},
            {});
        REQUIRE(faulty);
        const auto checked = check_devices(shares, *faulty);
        REQUIRE_FALSE(checked);
        CHECK(checked.error().kind == ErrorKind::unavailable);
        const auto planned =
            plan_prepare(claim({share("GPU-a", {1 << 20, 0, 1})}), {"node", *faulty, {}});
        CHECK_FALSE(planned);
    }
}

TEST_CASE("what claims hold is offered even where the devices have less now") {
    const std::vector<Device> smaller = {{.uuid = "GPU-a", .memory_bytes = 60 * gib},
                                         {.uuid = "GPU-b", .memory_bytes = 40 * gib}};
    const ClaimRecord held{
        .claim = {"ns", "held", "h"},
        .shares = {{.device = name_of("GPU-a"), .uuid = "GPU-a", .amounts = {70 * gib, 0, 1}}}};
    const PublishedSizes published = {{"GPU-a", 80 * gib}, {"GPU-b", 40 * gib}};
    // Not accepted yet: what was published holds.
    CHECK(with_committed(published, {}, smaller, {held}) == published);
    const NodeSettings accepted{.accept_memory_sizes = true};
    CHECK(with_committed(published, accepted, smaller, {held}) ==
          PublishedSizes{{"GPU-a", 70 * gib}});
    CHECK(with_committed(published, accepted, smaller, {}).empty());
}

TEST_CASE("a class bounds what a claim may set, and leaves the rest free") {
    using enum CorePolicy;
    struct Row {
        ShareConfig bound;
        ShareConfig wish;
        ShareConfig wanted;
    };
    const Row rows[] = {
        {config({}, {}), config(0, {}), config(0, {})},
        {config(1, {}), config(0, force), config(1, force)},
        {config(0, {}), config(1, {}), config(1, {})},
        {config({}, force), config({}, disable), config({}, force)},
        {config({}, standard), config({}, {}), config({}, standard)},
    };
    for (const Row& row : rows)
        CHECK(bounded(row.bound, row.wish) == row.wanted);
}

TEST_CASE("parameters are read strictly in a known version, kindly in a later one") {
    const auto read = [](const char* text) {
        const auto document = parse_json(text);
        REQUIRE(document);
        return read_share_config(document->root());
    };
    const auto good = read(
        R"({"apiVersion":"gpu.drawbridge.dev/v1","kind":"ShareConfig","priority":1,"corePolicy":"force"})");
    REQUIRE(good);
    CHECK(good->config == config(1, CorePolicy::force));
    CHECK(good->warnings.empty());
    const auto later =
        read(R"({"apiVersion":"gpu.drawbridge.dev/v2","kind":"ShareConfig","new":1,"priority":0})");
    REQUIRE(later);
    CHECK(later->config == config(0, {}));
    CHECK(later->warnings.size() == 1);
    const std::pair<const char*, const char*> wrong[] = {
        {R"({"apiVersion":"gpu.drawbridge.dev/v1","kind":"ShareConfig","new":1})", "/new"},
        {R"({"apiVersion":"gpu.drawbridge.dev/v1","kind":"ShareConfig","priority":2})",
         "/priority"},
        {R"({"apiVersion":"gpu.drawbridge.dev/v1","kind":"ShareConfig","corePolicy":"x"})",
         "/corePolicy"},
        {R"({"apiVersion":"gpu.drawbridge.dev/v1","kind":"Other"})", "/kind"},
        {R"({"apiVersion":"example.com/v1","kind":"ShareConfig"})", "/apiVersion"},
        {R"({"apiVersion":"gpu.drawbridge.dev/v1beta1","kind":"ShareConfig"})", "/apiVersion"},
        {R"({"kind":"ShareConfig"})", "/apiVersion"},
        {R"([])", "/apiVersion"}};
    for (const auto& [text, path] : wrong) {
        const auto refused = read(text);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().path == path);
    }
}

TEST_CASE("the parameters of a request reach its shares alone") {
    ClaimFacts facts = claim({});
    facts.configs = {{.requests = {"a"}, .config = config(1, {})},
                     {.requests = {"b/large"}, .config = config({}, CorePolicy::force)}};
    const auto of = [&](const char* request, const char* subrequest) {
        return config_of(facts, {.request = request, .subrequest = subrequest});
    };
    CHECK(of("a", "") == config(1, {}));
    CHECK(of("a", "any") == config(1, {}));
    CHECK(of("b", "large") == config({}, CorePolicy::force));
    CHECK(of("b", "small") == config({}, {}));
    CHECK(of("c", "") == config({}, {}));
}
