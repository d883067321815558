#include "server/feature_probe.hpp"

#include "translate/feature_trial.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge;
using server::MinorWindow;

namespace {

base::JsonDocument parse(std::string text) {
    auto document = base::parse_json(std::move(text));
    REQUIRE(document);
    return std::move(*document);
}

}  // namespace

TEST_CASE("the minor is read with and without a plus") {
    struct Row {
        const char* text;
        int minor;  // 0: none
    };
    const Row rows[] = {{R"({"major":"1","minor":"36"})", 36},
                        {R"({"major":"1","minor":"36+"})", 36},
                        {R"({"major":"1","minor":"9"})", 9},
                        {R"({"major":"2","minor":"36"})", 0},
                        {R"({"major":"1","minor":36})", 0},
                        {R"({"major":"1","minor":"36-rc"})", 0},
                        {R"({"major":"1","minor":""})", 0},
                        {R"({"major":"1","minor":"-3"})", 0},
                        {R"({"major":"1","minor":"99999999999"})", 0},
                        {"{}", 0},
                        {"[]", 0}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        CHECK(translate::read_minor(parse(row.text).root()).value_or(0) == row.minor);
    }
}

TEST_CASE("while API servers of two minors answer, the older one counts") {
    MinorWindow window;
    CHECK(window.oldest() == 0);
    window.add(36);
    CHECK(window.oldest() == 36);
    CHECK_FALSE(window.differs());
    window.add(35);
    window.add(36);
    CHECK(window.oldest() == 35);
    CHECK(window.differs());
    window.add(36);
    CHECK(window.oldest() == 35);  // still among the last three
    window.add(36);
    CHECK(window.oldest() == 36);
    CHECK_FALSE(window.differs());
}

TEST_CASE("what a server dropped is named with its gate") {
    const kube::ClaimSpec asked = translate::trial_spec({});
    const std::string sent = kube::to_json(asked);
    CHECK(translate::dropped_fields(asked, parse(sent).root()).empty());

    struct Row {
        const char* from;
        const char* to;
        const char* said;
    };
    const Row rows[] = {
        {R"("capacity":)", R"("capacitas":)", "capacity.requests (DRAConsumableCapacity)"},
        {R"("firstAvailable":)", R"("lastAvailable":)", "firstAvailable (DRAPrioritizedList)"},
        {R"("distinctAttribute":)", R"("distinctAttributo":)",
         "distinctAttribute (DRAConsumableCapacity)"},
        {R"("memory":"1Mi")", R"("memory":"2Mi")", "what came back differs"}};
    for (const Row& row : rows) {
        CAPTURE(row.said);
        std::string kept = sent;
        const std::size_t at = kept.find(row.from);
        REQUIRE(at != std::string::npos);
        kept.replace(at, std::string(row.from).size(), row.to);
        CHECK(translate::dropped_fields(asked, parse(kept).root()).find(row.said) !=
              std::string::npos);
    }
    CHECK_FALSE(translate::dropped_fields(asked, base::JsonView()).empty());
}

TEST_CASE("the trial has every field that our templates depend on, and is one of theirs") {
    translate::Target target;
    target.driver = "gpu.example.com";
    const std::string text = kube::to_json(translate::trial_spec(target));
    for (const char* const field :
         {"capacity", "firstAvailable", "distinctAttribute", "gpu.example.com/uuid"}) {
        CHECK(text.find(field) != std::string::npos);
    }
}
