#include "translate/match_conditions.hpp"

#include "translate/settings.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

using namespace drawbridge::translate;

namespace {

std::string joined(const Settings& settings) {
    std::string all;
    for (const MatchCondition& condition : match_conditions(settings))
        all += condition.expression + "\n";
    return all;
}

}  // namespace

TEST_CASE("match conditions name every configured resource, the old scheduler and each opt-out") {
    Settings settings;
    settings.resources.count = "example.com/vgpu";
    settings.resources.priority = "";
    settings.policy.legacy_scheduler = "old";
    settings.policy.opt_out_labels = {{"team", "a"}, {"team", "b"}};
    const std::string all = joined(settings);
    for (const char* text : {"\"example.com/vgpu\"", "\"nvidia.com/gpumem\"", "== \"old\"",
                             "!= \"a\"", "!= \"b\"", "startsWith(\"drawbridge-\")"}) {
        CAPTURE(text);
        CHECK(all.find(text) != std::string::npos);
    }
    CHECK(all.find("nvidia.com/priority") == std::string::npos);
    CHECK(all.find("nvidia.com/gpu\"") == std::string::npos);
    CHECK(all.find("\"\"") == std::string::npos);
}

TEST_CASE("match conditions have names of their own") {
    Settings settings;
    settings.policy.opt_out_labels = {{"a", "1"}, {"a", "2"}, {"b", "1"}};
    std::set<std::string> names;
    const auto all = match_conditions(settings);
    for (const MatchCondition& condition : all)
        names.insert(condition.name);
    CHECK(names.size() == all.size());
    CHECK(all.size() == 6);
}

TEST_CASE("no condition asks for the old scheduler where the site has none") {
    Settings settings;
    settings.policy.legacy_scheduler = "";
    CHECK(joined(settings).find("schedulerName") == std::string::npos);
}

TEST_CASE("hiding GPUs from other containers concerns every new pod") {
    Settings settings;
    settings.policy.hide_gpus_from_others = true;
    CHECK(match_conditions(settings).front().expression == "request.operation != 'CREATE' || true");
}
