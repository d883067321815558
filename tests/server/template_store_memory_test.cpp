#include "server/template_store_memory.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <vector>

using namespace drawbridge;
using namespace drawbridge::server;

namespace {

template <class T>
T wait_for(boost::asio::awaitable<T> work) {
    boost::asio::io_context io;
    std::optional<T> result;
    auto done = [&](const std::exception_ptr& failure, T value) {
        REQUIRE_FALSE(failure);
        result = std::move(value);
    };
    boost::asio::co_spawn(io, std::move(work), std::move(done));
    io.run();
    return std::move(*result);
}

kube::ClaimTemplate claim_template(std::string name, std::int64_t count = 1) {
    kube::DeviceAlternative exactly;
    exactly.device_class = "gpu.drawbridge.dev";
    exactly.count = count;
    kube::ClaimTemplate made;
    made.name = std::move(name);
    made.spec.requests = {{"gpu", {exactly}}};
    return made;
}

StoreCall in(std::string name_space, bool dry_run = false) {
    return {std::move(name_space), dry_run, std::chrono::steady_clock::time_point::max()};
}

}  // namespace

TEST_CASE("a template is kept once, by namespace and name") {
    int created = 0;
    MemoryTemplateStore store([&] { ++created; });
    const std::vector<kube::ClaimTemplate> both{claim_template("a"), claim_template("b")};
    for (int i = 0; i < 3; ++i)
        CHECK(wait_for(store.ensure(in("one"), both)).has_value());
    CHECK(wait_for(store.ensure(in("two"), {claim_template("a")})).has_value());
    CHECK(store.size() == 3);
    CHECK(created == 3);
    CHECK(wait_for(store.exists(in("two"), "a")).value());
    CHECK_FALSE(wait_for(store.exists(in("two"), "b")).value());
    CHECK_FALSE(wait_for(store.exists(in("three"), "a")).value());
}

TEST_CASE("a dry run writes nothing and still sees a conflict") {
    MemoryTemplateStore store;
    CHECK(wait_for(store.ensure(in("one", true), {claim_template("a")})).has_value());
    CHECK(store.size() == 0);
    CHECK(wait_for(store.ensure(in("one"), {claim_template("a")})).has_value());
    const auto other = wait_for(store.ensure(in("one", true), {claim_template("a", 2)}));
    REQUIRE_FALSE(other.has_value());
    CHECK(other.error().kind == base::ErrorKind::conflict);
    CHECK(other.error().path == "a");
}

TEST_CASE("a full store says so and keeps what it has") {
    MemoryTemplateStore store({}, 2);
    CHECK(wait_for(store.ensure(in("n"), {claim_template("a"), claim_template("b")})).has_value());
    const auto third = wait_for(store.ensure(in("n"), {claim_template("c")}));
    REQUIRE_FALSE(third.has_value());
    CHECK(third.error().kind == base::ErrorKind::unavailable);
    CHECK(wait_for(store.ensure(in("n"), {claim_template("a")})).has_value());
    CHECK(store.size() == 2);
}

TEST_CASE("the templates are shown as a List that kubectl could apply") {
    MemoryTemplateStore store;
    CHECK(wait_for(store.ensure(in("n"), {claim_template("a")})).has_value());
    const auto list = nlohmann::json::parse(store.to_json());
    CHECK(list["kind"] == "List");
    CHECK(list["apiVersion"] == "v1");
    REQUIRE(list["items"].size() == 1);
    CHECK(list["items"][0]["kind"] == "ResourceClaimTemplate");
    CHECK(list["items"][0]["metadata"]["namespace"] == "n");
    CHECK(list["items"][0]["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "drawbridge");
}

TEST_CASE("several threads may ask at once") {
    MemoryTemplateStore store;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 200; ++i) {
                const auto name = std::to_string(i);
                static_cast<void>(wait_for(store.ensure(in("n"), {claim_template(name)})));
                static_cast<void>(store.size());
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
    CHECK(store.size() == 200);
}
