// Updates of pods that exist: re-applied manifests, as a real kube-apiserver sent them.

#include "base/json.hpp"
#include "translate/translate.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <iterator>
#include <string>

namespace {

using namespace drawbridge::translate;
using nlohmann::json;

json recorded(const std::string& name) {
    std::ifstream file(std::string(DRAWBRIDGE_SOURCE) + "/tests/reviews/" + name);
    REQUIRE(file.good());
    return json::parse(file)["request"];
}

Translation translate_request(const json& request, const Settings& settings = {}) {
    const auto now = drawbridge::base::parse_json(request["object"].dump());
    const auto before = drawbridge::base::parse_json(request["oldObject"].dump());
    REQUIRE(now.has_value());
    REQUIRE(before.has_value());
    return translate_pod({now->root(), before->root(), Operation::update, {}}, settings, {});
}

json patched(const json& request, const Translation& translation) {
    return request["object"].patch(json::parse(translation.patch.to_json()));
}

}  // namespace

TEST_CASE("a re-applied manifest leaves the pod as it was") {
    const json request = recorded("reapply-unchanged.json");
    const auto translation = translate_request(request);
    CHECK(translation.verdict == Verdict::translate);
    CHECK(translation.templates.empty());
    CHECK(patched(request, translation)["spec"] == request["oldObject"]["spec"]);
}

TEST_CASE("a label that comes with the re-applied manifest stays") {
    const json request = recorded("reapply-new-label.json");
    const json after = patched(request, translate_request(request));
    CHECK(after["spec"] == request["oldObject"]["spec"]);
    CHECK(after["metadata"]["labels"] == request["object"]["metadata"]["labels"]);
    CHECK(after["metadata"]["labels"] != request["oldObject"]["metadata"].value("labels", json()));
}

TEST_CASE("another figure is left for the API server to refuse") {
    const auto translation = translate_request(recorded("reapply-changed-figure.json"));
    CHECK(translation.verdict == Verdict::leave);
    CHECK(translation.patch.empty());
    REQUIRE(translation.diagnostics.size() == 1);
    CHECK(translation.diagnostics.front().code == Code::update_changes_request);
}

TEST_CASE("a pod that was never translated is left alone") {
    for (const char* name : {"01-memory-round-thousand-update-label.json",
                             "01-memory-round-thousand-update-reapply.json"}) {
        const auto translation = translate_request(recorded(name));
        CHECK(translation.verdict == Verdict::leave);
        CHECK(translation.diagnostics.empty());
    }
}

TEST_CASE("scheduler name and variables of ours come back from the old pod") {
    json request = recorded("reapply-unchanged.json");
    request["object"]["spec"]["schedulerName"] = "hami-scheduler";
    const json mine = {{"name", "A"}, {"value", "1"}};
    const json ours = {{"name", "CUDA_TASK_PRIORITY"}, {"value", "0"}};
    request["oldObject"]["spec"]["containers"][0]["env"] = json::array({mine, ours});
    request["object"]["spec"]["containers"][0]["env"] = json::array({mine});
    const json after = patched(request, translate_request(request));
    CHECK(after["spec"] == request["oldObject"]["spec"]);

    request["object"]["spec"]["containers"][0]["env"] = json::array({{{"name", "B"}}});
    const json changed = patched(request, translate_request(request));
    CHECK(changed["spec"]["containers"][0]["env"] ==
          request["object"]["spec"]["containers"][0]["env"]);
}
