#include "kube/claim_model.hpp"

#include <doctest/doctest.h>

using namespace drawbridge;
using namespace drawbridge::kube;

namespace {

ClaimSpec full_spec() {
    DeviceAlternative small{.name = "s0",
                            .device_class = "gpu",
                            .selectors = {"a < \"b\""},
                            .capacity = {{"cores", "0"}, {"memory", "8Gi"}}};
    DeviceAlternative large{.name = "s1", .device_class = "gpu", .count = 2};
    return {
        .requests = {{.name = "gpu-0",
                      .alternatives = {{.device_class = "gpu",
                                        .capacity = {{"memory", "4096Mi"}}}}},
                     {.name = "gpu-1", .alternatives = {small, large}}},
        .constraints = {{.requests = {"gpu-0", "gpu-1"},
                         .match_attribute = "d/n",
                         .distinct_attribute = ""},
                        {.requests = {}, .match_attribute = "", .distinct_attribute = "d/uuid"}},
        .config = {{.requests = {"gpu-0"},
                    .driver = "d",
                    .parameters = R"({"kind":"ShareConfig","priority":0})"}}};
}

constexpr std::string_view full_json =
    R"({"requests":[{"name":"gpu-0","exactly":{"deviceClassName":"gpu","capacity":{"requests":{"memory":"4096Mi"}}}},)"
    R"({"name":"gpu-1","firstAvailable":[{"name":"s0","deviceClassName":"gpu","selectors":[{"cel":{"expression":"a < \"b\""}}],)"
    R"("capacity":{"requests":{"cores":"0","memory":"8Gi"}}},{"name":"s1","deviceClassName":"gpu","count":2}]}],)"
    R"("constraints":[{"requests":["gpu-0","gpu-1"],"matchAttribute":"d/n"},{"distinctAttribute":"d/uuid"}],)"
    R"("config":[{"requests":["gpu-0"],"opaque":{"driver":"d","parameters":{"kind":"ShareConfig","priority":0}}}]})";

base::Result<ClaimSpec> read(std::string_view text) {
    const auto document = base::parse_json(std::string(text));
    REQUIRE(document);
    return claim_spec_from_json(document->root());
}

}  // namespace

TEST_CASE("a claim is written in one form") {
    CHECK(to_json(full_spec()) == full_json);
    CHECK(to_json(ClaimSpec{}) == "{}");
}

TEST_CASE("a template carries the label only when the server wrote it") {
    const ClaimTemplate claim_template{
        .name = "drawbridge-x",
        .spec = {.requests = {{.name = "gpu", .alternatives = {{.device_class = "c"}}}}}};
    const std::string spec =
        R"("spec":{"spec":{"devices":{"requests":[{"name":"gpu","exactly":{"deviceClassName":"c"}}]}}}})";
    const std::string head =
        R"({"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":"drawbridge-x")";
    CHECK(to_json(claim_template, "ns", TemplateWriter::server) ==
          head + R"(,"namespace":"ns","labels":{"app.kubernetes.io/managed-by":"drawbridge"}},)" +
              spec);
    CHECK(to_json(claim_template, "", TemplateWriter::command_line) == head + "}," + spec);
    CHECK(to_json(claim_template, "ns", TemplateWriter::command_line) ==
          head + R"(,"namespace":"ns"},)" + spec);
}

TEST_CASE("what was written is read back") {
    const auto spec = read(full_json);
    REQUIRE(spec);
    CHECK(to_json(*spec) == full_json);
    CHECK(same_content(*spec, full_spec()));
    CHECK(same_content(*read("{}"), ClaimSpec{}));
}

TEST_CASE("what an API server fills in or rewrites is the same content") {
    const auto spec = read(
        R"({"config":[{"opaque":{"parameters":{"priority":0,"kind":"ShareConfig"},"driver":"d"},"requests":["gpu-0"]}],)"
        R"("constraints":[{"matchAttribute":"d/n","requests":["gpu-0","gpu-1"]},{"distinctAttribute":"d/uuid","requests":null}],)"
        R"("requests":[{"exactly":{"allocationMode":"ExactCount","capacity":{"requests":{"memory":"4Gi"}},"count":1,)"
        R"("deviceClassName":"gpu"},"name":"gpu-0"},{"firstAvailable":[{"allocationMode":"ExactCount",)"
        R"("capacity":{"requests":{"memory":8589934592,"cores":"0"}},"count":1,"deviceClassName":"gpu","name":"s0",)"
        R"("selectors":[{"cel":{"expression":"a < \"b\""}}]},{"allocationMode":"ExactCount","count":2,)"
        R"("deviceClassName":"gpu","name":"s1"}],"name":"gpu-1"}]})");
    REQUIRE(spec);
    CHECK(same_content(*spec, full_spec()));
    CHECK(same_content(full_spec(), *spec));
}

TEST_CASE("any difference that counts is seen") {
    void (*const changes[])(ClaimSpec&) = {
        [](ClaimSpec& spec) { spec.requests.pop_back(); },
        [](ClaimSpec& spec) { spec.requests[0].name = "x"; },
        [](ClaimSpec& spec) { std::swap(spec.requests[0], spec.requests[1]); },
        [](ClaimSpec& spec) { spec.requests[1].alternatives.pop_back(); },
        [](ClaimSpec& spec) { spec.requests[1].alternatives[0].name = "x"; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].name = "x"; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].device_class = "x"; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].count = 2; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].selectors = {"true"}; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].capacity[0].first = "cores"; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].capacity[0].second = "4097Mi"; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].capacity[0].second = "junk"; },
        [](ClaimSpec& spec) { spec.requests[0].alternatives[0].capacity.clear(); },
        [](ClaimSpec& spec) { spec.constraints.pop_back(); },
        [](ClaimSpec& spec) { spec.constraints[0].requests.pop_back(); },
        [](ClaimSpec& spec) {
            std::swap(spec.constraints[0].match_attribute, spec.constraints[0].distinct_attribute);
        },
        [](ClaimSpec& spec) { spec.config[0].requests.clear(); },
        [](ClaimSpec& spec) { spec.config[0].driver = "e"; },
        [](ClaimSpec& spec) {
            spec.config[0].parameters = R"({"kind":"ShareConfig","priority":1})";
        },
        [](ClaimSpec& spec) {
            spec.config[0].parameters = R"({"kind":"ShareConfig","priority":"0"})";
        },
        [](ClaimSpec& spec) {
            spec.config[0].parameters = R"({"kind":"ShareConfig","priority":false})";
        },
        [](ClaimSpec& spec) {
            spec.config[0].parameters = R"({"kind":"ShareConfig","priority":[0]})";
        },
        [](ClaimSpec& spec) { spec.config[0].parameters = R"({"kind":"ShareConfig","other":0})"; },
        [](ClaimSpec& spec) { spec.config[0].parameters = R"({"kind":"ShareConfig"})"; },
        [](ClaimSpec& spec) { spec.config[0].parameters = "junk"; },
        [](ClaimSpec& spec) { spec.config.clear(); },
    };
    for (std::size_t i = 0; i < std::size(changes); ++i) {
        CAPTURE(i);
        ClaimSpec changed = full_spec();
        changes[i](changed);
        CHECK_FALSE(same_content(changed, full_spec()));
        CHECK_FALSE(same_content(full_spec(), changed));
        CHECK(same_content(changed, changed));
    }
}

TEST_CASE("content that we never write is refused with its place") {
    const std::string_view exact = R"({"requests":[{"name":"g","exactly":{"deviceClassName":"c",)";
    struct Row {
        std::string text;
        std::string_view path;
    };
    const Row rows[] = {
        {"[]", ""},
        {"null", ""},
        {R"({"future":1})", "/future"},
        {R"({"requests":{}})", "/requests"},
        {R"({"requests":[1]})", "/requests/0"},
        {R"({"requests":[{}]})", "/requests/0/name"},
        {R"({"requests":[{"name":""}]})", "/requests/0/name"},
        {R"({"requests":[{"name":"g"}]})", "/requests/0"},
        {R"({"requests":[{"name":"g","exactly":{},"firstAvailable":[]}]})", "/requests/0"},
        {R"({"requests":[{"name":"g","exactly":{}}]})", "/requests/0/exactly/deviceClassName"},
        {R"({"requests":[{"name":"g","firstAvailable":[]}]})", "/requests/0/firstAvailable"},
        {R"({"requests":[{"name":"g","firstAvailable":[{"deviceClassName":"c"}]}]})",
         "/requests/0/firstAvailable/0/name"},
        {R"({"requests":[{"name":"g","firstAvailable":[{"name":"a","adminAccess":true,"deviceClassName":"c"}]}]})",
         "/requests/0/firstAvailable/0/adminAccess"},
        {std::string(exact) + R"("name":"x"}}]})", "/requests/0/exactly/name"},
        {std::string(exact) + R"("adminAccess":false}}]})", "/requests/0/exactly/adminAccess"},
        {std::string(exact) + R"("tolerations":[]}}]})", "/requests/0/exactly/tolerations"},
        {std::string(exact) + R"("a/b":1}}]})", "/requests/0/exactly/a~1b"},
        {std::string(exact) + R"("allocationMode":"All"}}]})",
         "/requests/0/exactly/allocationMode"},
        {std::string(exact) + R"("count":0}}]})", "/requests/0/exactly/count"},
        {std::string(exact) + R"("count":1.5}}]})", "/requests/0/exactly/count"},
        {std::string(exact) + R"("count":"1"}}]})", "/requests/0/exactly/count"},
        {std::string(exact) + R"("count":9223372036854775808}}]})", "/requests/0/exactly/count"},
        {std::string(exact) + R"("selectors":[{}]}}]})", "/requests/0/exactly/selectors/0/cel"},
        {std::string(exact) + R"("selectors":[{"cel":{"expression":"x","y":1}}]}}]})",
         "/requests/0/exactly/selectors/0/cel/y"},
        {std::string(exact) + R"("selectors":[{"cel":{"expression":1}}]}}]})",
         "/requests/0/exactly/selectors/0/cel/expression"},
        {std::string(exact) + R"("capacity":{"limits":{}}}}]})",
         "/requests/0/exactly/capacity/limits"},
        {std::string(exact) + R"("capacity":{"requests":[]}}}]})",
         "/requests/0/exactly/capacity/requests"},
        {std::string(exact) + R"("capacity":{"requests":{"memory":"1K"}}}}]})",
         "/requests/0/exactly/capacity/requests/memory"},
        {std::string(exact) + R"("capacity":{"requests":{"memory":null}}}}]})",
         "/requests/0/exactly/capacity/requests/memory"},
        {R"({"constraints":[{"requests":["a"]}]})", "/constraints/0"},
        {R"({"constraints":[{"matchAttribute":"a","distinctAttribute":"b"}]})", "/constraints/0"},
        {R"({"constraints":[{"matchAttribute":"a","requests":[1]}]})", "/constraints/0/requests/0"},
        {R"({"constraints":[{"matchAttribute":1}]})", "/constraints/0/matchAttribute"},
        {R"({"config":[{}]})", "/config/0/opaque"},
        {R"({"config":[{"opaque":{"driver":"d"}}]})", "/config/0/opaque/parameters"},
        {R"({"config":[{"opaque":{"driver":"d","parameters":[]}}]})",
         "/config/0/opaque/parameters"},
        {R"({"config":[{"opaque":{"parameters":{}}}]})", "/config/0/opaque/driver"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto spec = read(row.text);
        REQUIRE_FALSE(spec);
        CHECK(spec.error().kind == base::ErrorKind::invalid_input);
        CHECK(spec.error().path == "/spec/spec/devices" + std::string(row.path));
    }
    CHECK_FALSE(claim_spec_from_json(base::JsonView()));
}
