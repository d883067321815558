#include "agent/api/slices.hpp"

#include "agent/api/publish_plan.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <random>
#include <string>

using namespace drawbridge::agent;
using nlohmann::json;

namespace {

const NodeIdentity node{"node-1", "uid-1"};

SliceDevices devices(std::initializer_list<const char*> names) {
    SliceDevices made;
    for (const char* name : names)
        made.push_back(json{{"name", name}}.dump());
    return made;
}

/// An API server that keeps what it is given.
class Server {
public:
    std::vector<SeenSlice> seen() const {
        std::vector<SeenSlice> all;
        for (const auto& [name, slice] : slices_)
            all.push_back(slice);
        return all;
    }
    void perform(const SliceWrite& write) {
        if (write.what == SliceDo::remove) {
            REQUIRE(slices_.contains(write.name));
            CHECK(slices_[write.name].uid == write.uid);
            CHECK(slices_[write.name].resource_version == write.resource_version);
            slices_.erase(write.name);
            return;
        }
        CHECK(slices_.contains(write.name) == (write.what == SliceDo::update));
        const auto document = drawbridge::base::parse_json(write.body);
        REQUIRE(document);
        auto read = read_seen_slice(document->root());
        REQUIRE(read);
        if (write.what == SliceDo::update)
            CHECK(read->resource_version == slices_[write.name].resource_version);
        read->resource_version = std::to_string(++version_);
        read->uid = "uid-" + std::to_string(version_);
        slices_[write.name] = *read;
    }
    void wipe() { slices_.clear(); }

private:
    std::map<std::string, SeenSlice> slices_;
    int version_ = 0;
};

void check_published(const Server& server, const std::vector<SliceDevices>& wanted) {
    const auto seen = server.seen();
    REQUIRE(seen.size() == wanted.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
        CHECK(seen[i].devices == wanted[i]);
        CHECK(seen[i].generation == seen[0].generation);
        CHECK(seen[i].slice_count == static_cast<std::int64_t>(wanted.size()));
        CHECK(seen[i].owner_uid == node.uid);
    }
}

}  // namespace

TEST_CASE("quantities are written as an API server writes them") {
    const std::pair<std::int64_t, std::string_view> rows[] = {
        {0, "0"},
        {1, "1"},
        {1024, "1Ki"},
        {std::int64_t{80} << 30, "80Gi"},
        {std::int64_t{81559} << 20, "81559Mi"},
        {std::int64_t{1} << 40, "1Ti"},
        {1025, "1025"}};
    for (const auto& [bytes, text] : rows)
        CHECK(binary_quantity(bytes) == text);
}

TEST_CASE("versions are padded to semver") {
    const std::pair<std::string_view, std::string_view> rows[] = {
        {"12.4", "12.4.0"}, {"570.86.10", "570.86.10"},
        {"9", "9.0.0"},     {"570.05.1.2", "570.5.1"},
        {"", ""},           {"x", ""},
        {"12.x", "12.0.0"}, {"535.104.05", "535.104.5"}};
    for (const auto& [given, wanted] : rows)
        CHECK(semver(given) == wanted);
}

TEST_CASE("a capacity without room for a step is a single value") {
    const Offer offer{.name = "gpu-a", .capacity = {1 << 20, 100, 1}};
    const json device = json::parse(device_json(offer, {}));
    CHECK(device["capacity"]["slots"]["requestPolicy"] ==
          json{{"default", "1"}, {"validValues", {"1"}}});
    CHECK(device["capacity"]["memory"]["requestPolicy"] ==
          json{{"default", "1Mi"}, {"validValues", {"1Mi"}}});
    CHECK(device["capacity"]["cores"]["requestPolicy"]["validRange"]["step"] == "1");
}

TEST_CASE("what is no text in an attribute does not take away what comes behind it") {
    Offer offer{.name = "gpu-a", .capacity = {1 << 30, 100, 10}};
    offer.device.product_name = "Card\xff Pro";
    const json device = json::parse(device_json(offer, {}));
    CHECK(device["attributes"]["productName"]["string"] == "Card? Pro");
}

TEST_CASE("attribute texts are cut between characters") {
    Offer offer{.name = "gpu-a", .capacity = {1 << 30, 100, 10}};
    offer.device.product_name = std::string(63, 'x') + "\u00e9";
    const json device = json::parse(device_json(offer, {}));
    CHECK(device["attributes"]["productName"]["string"] == std::string(63, 'x'));
}

TEST_CASE("a slice's name fits and stays apart for long node names") {
    const std::string node_a = std::string(252, 'a') + "b";
    const std::string node_b = std::string(252, 'a') + "c";
    CHECK(slice_name(0, "n") == "00000-gpu.drawbridge.dev-n");
    CHECK(slice_name(1, node_a).size() <= 253);
    CHECK(slice_name(1, node_a) != slice_name(1, node_b));
    CHECK(slice_name(1, "n") < slice_name(16, "n"));
}

TEST_CASE("nothing is written when all is as it should be") {
    Server server;
    const std::vector<SliceDevices> wanted = {devices({"a", "b"})};
    for (const SliceWrite& write : plan_publish(wanted, server.seen(), node))
        server.perform(write);
    check_published(server, wanted);
    CHECK(plan_publish(wanted, server.seen(), node).empty());
}

TEST_CASE("one changed slice keeps the generation, two make a new one") {
    Server server;
    const auto publish = [&](const std::vector<SliceDevices>& wanted) {
        const auto writes = plan_publish(wanted, server.seen(), node);
        for (const SliceWrite& write : writes)
            server.perform(write);
        check_published(server, wanted);
        return writes.size();
    };
    publish({devices({"a"}), devices({"b"})});
    CHECK(publish({devices({"a"}), devices({"c"})}) == 1);
    CHECK(server.seen()[0].generation == 1);
    CHECK(publish({devices({"d"}), devices({"e"})}) == 2);
    CHECK(server.seen()[0].generation == 2);
    CHECK(publish({devices({"d"})}) == 2);
    CHECK(server.seen()[0].generation == 3);
}

TEST_CASE("slices of another Node object and of other names are replaced") {
    Server server;
    for (const SliceWrite& write : plan_publish({devices({"a"})}, {}, {"node-1", "uid-old"}))
        server.perform(write);
    const auto writes = plan_publish({devices({"a"})}, server.seen(), node);
    REQUIRE(writes.size() == 2);
    CHECK(writes[0].what == SliceDo::remove);
    for (const SliceWrite& write : writes)
        server.perform(write);
    check_published(server, {devices({"a"})});
    CHECK(server.seen()[0].generation == 2);
}

TEST_CASE("whatever happened before, one round of writes puts everything right") {
    std::mt19937 random(20240611);
    for (int run = 0; run < 200; ++run) {
        Server server;
        for (int round = 0; round < 6; ++round) {
            std::vector<SliceDevices> wanted(1 + random() % 4);
            for (SliceDevices& slice : wanted) {
                for (unsigned i = 0; i < random() % 3; ++i)
                    slice.push_back(json{{"name", std::to_string(random() % 5)}}.dump());
            }
            const auto writes = plan_publish(wanted, server.seen(), node);
            // A crash, or a conflict, after some of the writes.
            const std::size_t done = random() % (writes.size() + 1);
            for (std::size_t i = 0; i < done; ++i)
                server.perform(writes[i]);
            if (random() % 8 == 0) server.wipe();
            for (const SliceWrite& write : plan_publish(wanted, server.seen(), node))
                server.perform(write);
            check_published(server, wanted);
            CHECK(plan_publish(wanted, server.seen(), node).empty());
        }
    }
}

TEST_CASE("what a server drops is found, what it adds or rewrites is not") {
    const SliceDevices sent = {
        R"({"name":"a","allowMultipleAllocations":true,"taints":[{"key":"k","effect":"None"}],
            "capacity":{"memory":{"value":"4096Mi","requestPolicy":{"default":"4096Mi"}}}})"};
    const auto dropped = [&](const std::string& kept) { return dropped_fields(sent, {kept}); };
    CHECK(dropped(sent[0]).empty());
    CHECK(dropped(
              R"({"name":"a","allowMultipleAllocations":true,"more":1,
                  "taints":[{"key":"k","effect":"None","timeAdded":"now"}],
                  "capacity":{"memory":{"value":"4Gi","requestPolicy":{"default":"4Gi"}}}})")
              .empty());
    CHECK(dropped(R"({"name":"a","taints":[{"key":"k","effect":"None"}],
                      "capacity":{"memory":{"value":"4Gi"}}})") ==
          std::vector<std::string>{"/0/allowMultipleAllocations",
                                   "/0/capacity/memory/requestPolicy"});
    CHECK(dropped_fields(sent, {}) == std::vector<std::string>{"/0"});
}

TEST_CASE("a taint's time does not make a device another one") {
    const std::string plain = R"({"taints":[{"key":"k"}]})";
    CHECK(same_device(plain, R"({"taints":[{"key":"k","timeAdded":"x"}]})"));
    CHECK_FALSE(same_device(plain, R"({"taints":[]})"));
    CHECK_FALSE(same_device(plain, R"({"taints":[{"key":"k","value":"v"}]})"));
    CHECK_FALSE(same_device(plain, R"({})"));
}
