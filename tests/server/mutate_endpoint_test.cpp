#include "server/mutate_endpoint.hpp"

#include "base/atomic_file.hpp"
#include "base/log.hpp"
#include "server/template_store_memory.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

using namespace drawbridge;
using namespace drawbridge::server;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

/// A store that answers what the test wants and keeps what it was asked.
class FakeStore final : public TemplateStore {
public:
    base::Result<void> ensured;
    base::Result<bool> there = true;
    std::vector<StoreCall> calls;
    std::vector<std::string> names;
    std::function<void()> meanwhile = [] {};

    boost::asio::awaitable<base::Result<void>> ensure(
        StoreCall call, const std::vector<kube::ClaimTemplate>& templates) override {
        calls.push_back(call);
        for (const auto& claim_template : templates)
            names.push_back(claim_template.name);
        meanwhile();
        co_return ensured;
    }
    boost::asio::awaitable<base::Result<bool>> exists(StoreCall call, std::string) override {
        calls.push_back(call);
        co_return there;
    }
    [[nodiscard]] std::size_t size() const override { return names.size(); }
};

struct Fixture {
    SettingsHolder settings;
    ClusterHolder cluster{translate::Cluster{}};
    FakeStore store;
    Metrics metrics;
    Inflight inflight;
    std::vector<std::string> gaps;
    std::vector<std::string> log;
    std::int64_t max_in_flight = 8;

    Fixture() {
        settings.replace(translate::Settings{});
        base::set_log_sink([this](std::string_view line) { log.emplace_back(line); });
    }
    ~Fixture() { base::set_log_sink({}); }

    HttpAnswer ask(std::string body, std::chrono::nanoseconds time = 1s) {
        MutateEndpoint endpoint(
            {settings, cluster, store, metrics, inflight, [this] { return gaps; }, max_in_flight});
        boost::asio::io_context io;
        std::optional<HttpAnswer> answer;
        auto done = [&](const std::exception_ptr& failure, HttpAnswer given) {
            REQUIRE_FALSE(failure);
            answer = std::move(given);
        };
        const auto deadline = std::chrono::steady_clock::now() + time;
        boost::asio::co_spawn(io, endpoint.handle(std::move(body), deadline), std::move(done));
        io.run();
        REQUIRE(answer.has_value());
        return *answer;
    }

    double counted(const std::string& series) const {
        const std::string page = metrics.render(0, translate::Features::complete);
        const auto at = page.find("\n" + series + " ");
        REQUIRE(at != std::string::npos);
        return std::stod(page.substr(at + series.size() + 2));
    }
};

json recorded(const std::string& name) {
    const auto text =
        base::read_file(DRAWBRIDGE_SOURCE "/tests/reviews/" + name + ".json", 1U << 20U);
    REQUIRE(text.has_value());
    return json::parse(*text);
}

const std::string pod = "01-memory-round-thousand";

json response(const HttpAnswer& answer) {
    REQUIRE(answer.status == 200);
    return json::parse(answer.body)["response"];
}

/// A pod that names a template of ours and has nothing to make it from.
json restored_pod() {
    json body = recorded(pod);
    auto& object = body["request"]["object"];
    object["spec"]["containers"][0]["resources"] = {{"claims", {{{"name", "vgpu-0"}}}}};
    object["spec"]["resourceClaims"] = {
        {{"name", "vgpu-0"}, {"resourceClaimTemplateName", "drawbridge-aaaaaaaaaaaaaaaaaaaa"}}};
    return body;
}

}  // namespace

TEST_CASE("a review asks the store with its namespace, its dry run and its deadline") {
    Fixture f;
    json body = recorded(pod);
    body["request"]["dryRun"] = true;
    const auto before = std::chrono::steady_clock::now();
    CHECK(response(f.ask(body.dump(), 4s))["allowed"] == true);
    const auto after = std::chrono::steady_clock::now();
    REQUIRE(f.store.calls.size() == 1);
    CHECK(f.store.calls[0].name_space == pod);
    CHECK(f.store.calls[0].dry_run);
    CHECK(f.store.calls[0].deadline >= before + 4s);
    CHECK(f.store.calls[0].deadline <= after + 4s);
    CHECK(f.store.names.size() == 1);
}

TEST_CASE("a template of our name with other content denies and is named") {
    Fixture f;
    f.store.ensured = base::fail(base::ErrorKind::conflict, "differs", "drawbridge-x");
    const json answer = response(f.ask(recorded(pod).dump()));
    CHECK(answer["allowed"] == false);
    CHECK(answer["status"]["code"] == 403);
    CHECK(answer["status"]["message"].get<std::string>().find("drawbridge-x") != std::string::npos);
    CHECK_FALSE(answer.contains("patch"));
    CHECK(f.counted(R"(drawbridge_reviews_total{verdict="deny",code="template-conflict"})") == 1);
}

TEST_CASE("a store that cannot tell leaves the decision to the failurePolicy") {
    const struct {
        base::ErrorKind kind;
        int status;
        const char* code;
    } rows[] = {{base::ErrorKind::unavailable, 503, "store-failed"},
                {base::ErrorKind::timed_out, 504, "store-timed-out"},
                {base::ErrorKind::forbidden, 500, "store-failed"},
                {base::ErrorKind::internal, 500, "store-failed"}};
    for (const auto& row : rows) {
        Fixture f;
        f.store.ensured = base::fail(row.kind, "the reason");
        const HttpAnswer answer = f.ask(recorded(pod).dump());
        CHECK(answer.status == row.status);
        const json status = json::parse(answer.body);
        CHECK(status["kind"] == "Status");
        CHECK(status["message"].get<std::string>().find("the reason") != std::string::npos);
        CHECK(f.counted(std::string(R"(drawbridge_reviews_total{verdict="error",code=")") +
                        row.code + "\"}") == 1);
    }
}

TEST_CASE("a store that throws is an internal error without detail") {
    Fixture f;
    f.store.meanwhile = [] { throw std::runtime_error("secret detail"); };
    const HttpAnswer answer = f.ask(recorded(pod).dump());
    CHECK(answer.status == 500);
    CHECK(answer.body.find("secret") == std::string::npos);
    CHECK(f.counted("drawbridge_reviews_in_flight") == 0);
}

TEST_CASE("a referenced template that is there needs no write") {
    Fixture f;
    CHECK(response(f.ask(restored_pod().dump()))["allowed"] == true);
    CHECK(f.store.names.empty());
    CHECK(f.store.calls.size() == 1);
}

TEST_CASE("a referenced template that is lost for good denies and is named") {
    Fixture f;
    f.store.there = false;
    const json answer = response(f.ask(restored_pod().dump()));
    CHECK(answer["allowed"] == false);
    CHECK(answer["status"]["message"].get<std::string>().find("drawbridge-aaaa") !=
          std::string::npos);
}

TEST_CASE("a look for a referenced template that fails is no answer") {
    Fixture f;
    f.store.there = base::fail(base::ErrorKind::timed_out, "slow");
    CHECK(f.ask(restored_pod().dump()).status == 504);
}

TEST_CASE("before word of the cluster only what needs none is answered") {
    Fixture f;
    f.gaps = {"no first answer from the API server"};
    const HttpAnswer answer = f.ask(recorded(pod).dump());
    CHECK(answer.status == 503);
    CHECK(answer.body.find("no first answer") != std::string::npos);
    CHECK(f.store.calls.empty());
    CHECK(response(f.ask(recorded("34-other-resources-left").dump()))["allowed"] == true);
    CHECK(response(f.ask(recorded("07-byte-style-memory").dump()))["allowed"] == false);
    CHECK(f.ask(restored_pod().dump()).status == 503);
}

TEST_CASE("a percentage waits for the first list of memory sizes") {
    Fixture f;
    translate::Cluster cluster;
    cluster.sizes_state = translate::SizesState::not_listed;
    f.cluster.replace(cluster);
    CHECK(f.ask(recorded("04-memory-half-percent").dump()).status == 503);
    CHECK(f.counted(R"(drawbridge_reviews_total{verdict="error",code="sizes-not-listed"})") == 1);
    CHECK(f.ask(recorded(pod).dump()).status == 200);
}

TEST_CASE("over the bound a review is turned away at once") {
    Fixture f;
    f.max_in_flight = 1;
    std::optional<HttpAnswer> second;
    f.store.meanwhile = [&] { second = f.ask(recorded(pod).dump()); };
    CHECK(f.ask(recorded(pod).dump()).status == 200);
    REQUIRE(second.has_value());
    CHECK(second->status == 503);
    CHECK(second->headers.find("Retry-After") != std::string::npos);
    CHECK(f.counted(R"(drawbridge_reviews_total{verdict="error",code="overloaded"})") == 1);
}

TEST_CASE("a review in flight is listed while it lasts") {
    Fixture f;
    json during;
    f.store.meanwhile = [&] {
        during = json::parse(f.inflight.to_json(std::chrono::steady_clock::now()));
    };
    const json body = recorded(pod);
    CHECK(f.ask(body.dump()).status == 200);
    REQUIRE(during["items"].size() == 1);
    CHECK(during["items"][0]["uid"] == body["request"]["uid"]);
    CHECK(during["items"][0]["namespace"] == pod);
    CHECK(json::parse(f.inflight.to_json({}))["items"].empty());
}

TEST_CASE("each review is one line in the log, failures too") {
    Fixture f;
    CHECK(f.ask(recorded(pod).dump()).status == 200);
    CHECK(f.ask("{").status == 400);
    json other = recorded(pod);
    other["request"]["operation"] = "DELETE";
    CHECK(f.ask(other.dump()).status == 200);
    REQUIRE(f.log.size() == 3);
    const char* const verdicts[] = {"translate", "error", "leave"};
    for (std::size_t i = 0; i < 3; ++i) {
        const json line = json::parse(f.log[i]);
        CHECK(line["msg"] == "admission");
        CHECK(line["verdict"] == verdicts[i]);
    }
}
