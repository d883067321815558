// What create answers beside the amounts: scheduler, settings, entries of ours that the pod carries
// already.

#include "base/json.hpp"
#include "kube/json_patch.hpp"
#include "translate/translate.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace {

using namespace drawbridge::translate;
using drawbridge::base::parse_json;
using nlohmann::json;

json limits(const json& figures) {
    return {{"limits", figures}};
}

json pod_with(const std::vector<json>& containers) {
    return {{"metadata", {{"name", "p"}}}, {"spec", {{"containers", containers}}}};
}

json share(const char* name, const char* memory) {
    return {{"name", name}, {"resources", limits({{"nvidia.com/gpumem", memory}})}};
}

Translation translate_json(const json& pod, const Settings& settings = {},
                           const Cluster& cluster = {}) {
    const auto document = parse_json(pod.dump());
    REQUIRE(document.has_value());
    return translate_pod({document->root(), {}, Operation::create, {}}, settings, cluster);
}

json patched(const json& pod, const Translation& translation) {
    const json result = pod.patch(json::parse(translation.patch.to_json()));
    const auto own = drawbridge::kube::apply_patch(pod.dump(), translation.patch);
    REQUIRE(own.has_value());
    CHECK(json::parse(*own) == result);
    return result;
}

bool says(const Translation& translation, Code code) {
    return std::ranges::any_of(translation.diagnostics,
                               [&](const auto& diagnostic) { return diagnostic.code == code; });
}

}  // namespace

TEST_CASE("the legacy scheduler is replaced also where no GPU is asked for") {
    json pod = pod_with({json{{"name", "a"}}});
    pod["spec"]["schedulerName"] = "hami-scheduler";
    const auto translation = translate_json(pod);
    CHECK(translation.verdict == Verdict::translate);
    const json after = patched(pod, translation);
    CHECK(after["spec"]["schedulerName"] == "default-scheduler");
    CHECK(translation.templates.empty());
}

TEST_CASE("a foreign scheduler's pod is left, unless the settings list it") {
    json pod = pod_with({share("a", "3k")});
    pod["spec"]["schedulerName"] = "volcano";
    const auto left = translate_json(pod);
    CHECK(left.verdict == Verdict::leave);
    CHECK(says(left, Code::foreign_scheduler));
    Settings settings;
    settings.policy.capable_schedulers = {"volcano"};
    const auto translation = translate_json(pod, settings);
    CHECK(translation.verdict == Verdict::translate);
    CHECK(patched(pod, translation)["spec"]["schedulerName"] == "volcano");
}

TEST_CASE("all problems of a pod come in one answer, denials first") {
    json pod = pod_with({{{"name", "a"},
                          {"securityContext", {{"privileged", true}}},
                          {"resources", limits({{"nvidia.com/gpumem-percentage", 50},
                                                {"nvidia.com/gpucores", 150}})}}});
    pod["spec"]["nodeName"] = "n";
    const auto translation = translate_json(pod);
    CHECK(translation.verdict == Verdict::deny);
    CHECK(translation.templates.empty());
    CHECK(translation.patch.empty());
    for (const Code code : {Code::privileged_container, Code::node_name_set,
                            Code::memory_sizes_unknown, Code::cores_clamped}) {
        CHECK_MESSAGE(says(translation, code), std::string(name(code)));
    }
    CHECK(translation.diagnostics.back().severity == Severity::warning);
    for (const auto& diagnostic : translation.diagnostics)
        CHECK(!diagnostic.path.empty());
}

TEST_CASE("a percentage before the slices are listed is no answer, not a denial") {
    const json pod = pod_with(
        {{{"name", "a"}, {"resources", limits({{"nvidia.com/gpumem-percentage", "50"}})}}});
    Cluster cluster;
    cluster.sizes_state = SizesState::not_listed;
    const auto waiting = translate_json(pod, {}, cluster);
    CHECK(waiting.sizes_needed);
    CHECK(waiting.verdict == Verdict::leave);
    Settings settings;
    settings.memory_sizes = {std::int64_t{1000} << 20U};
    CHECK(translate_json(pod, settings, cluster).verdict == Verdict::translate);
}

TEST_CASE("an old server denies, or lets the pod pass with a warning, as the settings say") {
    const json pod = pod_with({share("a", "3k")});
    Settings settings;
    Cluster cluster;
    cluster.minor = 34;
    CHECK(translate_json(pod, settings, cluster).verdict == Verdict::deny);
    settings.policy.old_server = OldServer::passthrough;
    const auto passed = translate_json(pod, settings, cluster);
    CHECK(passed.verdict == Verdict::leave);
    CHECK(passed.diagnostics.size() == 1);
    CHECK(passed.diagnostics.front().severity == Severity::warning);
    cluster.minor = 36;
    cluster.features = Features::gate_off;
    CHECK(says(translate_json(pod, settings, cluster), Code::gate_off));
}

TEST_CASE("a plain count is left to the cluster where the settings say so, and only a plain one") {
    Settings settings;
    settings.policy.plain_count = PlainCount::leave;
    json pod = pod_with(
        {{{"name", "a"}, {"resources", limits({{"nvidia.com/gpu", "1"}})}}, share("b", "3k")});
    const auto translation = translate_json(pod, settings);
    CHECK(translation.verdict == Verdict::translate);
    const json after = patched(pod, translation);
    CHECK(after["spec"]["containers"][0] == pod["spec"]["containers"][0]);
    CHECK(after["spec"]["resourceClaims"].size() == 1);
    pod["metadata"]["annotations"]["nvidia.com/use-gputype"] = "A100";
    CHECK(patched(pod, translate_json(pod, settings))["spec"]["resourceClaims"].size() == 2);
}

TEST_CASE("a second round that puts the same names back strips them and adds nothing") {
    const json pod = pod_with({share("a", "3k")});
    const json once = patched(pod, translate_json(pod));
    json again = once;
    again["spec"]["containers"][0]["resources"]["limits"] = {{"nvidia.com/gpumem", "3000"}};
    const auto second = translate_json(again);
    CHECK(second.verdict == Verdict::translate);
    CHECK(patched(again, second) == once);
}

TEST_CASE("a LimitRange that puts its own figures back changes nothing of the claim") {
    // What kube-apiserver 1.36.3 sends in its second round: only the names that have a default.
    const json pod = pod_with({share("a", "4k"), share("b", "3k")});
    const json once = patched(pod, translate_json(pod));
    json again = once;
    const json defaults = {{"nvidia.com/gpumem", "2k"}};
    again["spec"]["containers"][0]["resources"]["limits"] = defaults;
    again["spec"]["containers"][0]["resources"]["requests"] = defaults;
    const auto second = translate_json(again);
    CHECK(second.verdict == Verdict::translate);
    CHECK(says(second, Code::claim_kept));
    CHECK(patched(again, second) == once);
}

TEST_CASE(
    "figures that differ from the claim are refused where the annotation does not explain it") {
    const json pod = pod_with({share("a", "3k")});
    json again = patched(pod, translate_json(pod));
    again["spec"]["containers"][0]["resources"]["limits"] = {{"nvidia.com/gpumem", "4k"}};
    json bare = again;
    bare["metadata"].erase("annotations");
    json forged = again;
    forged["metadata"]["annotations"]["drawbridge.dev/original"] =
        R"({"v":1,"containers":{"a":{"limits":{"nvidia.com/gpumem":"5k"},"requests":{}}}})";
    for (const json& copy : {bare, forged}) {
        const auto other = translate_json(copy);
        CHECK(other.verdict == Verdict::deny);
        CHECK(says(other, Code::claim_entry_differs));
    }
}

TEST_CASE("a container that comes late gets a claim of its own and a place in the annotation") {
    const json pod = pod_with({share("a", "3k")});
    json late = patched(pod, translate_json(pod));
    late["spec"]["containers"].push_back(share("b", "4k"));
    const auto second = translate_json(late);
    const json after = patched(late, second);
    CHECK(after["spec"]["resourceClaims"].size() == 2);
    CHECK(after["spec"]["resourceClaims"][1]["name"] == "vgpu-1");
    CHECK(second.referenced_templates.size() == 1);
    CHECK(second.restorable.size() == 1);
    const json original =
        json::parse(after["metadata"]["annotations"]["drawbridge.dev/original"].get<std::string>());
    CHECK(original["containers"].size() == 2);
}

TEST_CASE("a translated pod names its template, which can be made again from the annotation") {
    json pod = pod_with({share("a", "6k")});
    pod["spec"]["initContainers"] = json::array({share("i", "7k")});
    const auto first = translate_json(pod);
    const auto second = translate_json(patched(pod, first));
    CHECK(second.verdict == Verdict::leave);
    REQUIRE(second.referenced_templates.size() == 1);
    REQUIRE(second.restorable.size() == 1);
    CHECK(second.restorable.front().name == first.templates.front().name);
    CHECK(second.referenced_templates.front() == first.templates.front().name);
}

TEST_CASE("an annotation that does not come to the named template restores nothing") {
    const json pod = pod_with({share("a", "6k")});
    json after = patched(pod, translate_json(pod));
    after["metadata"]["annotations"]["drawbridge.dev/original"] =
        R"({"v":1,"containers":{"a":{"limits":{"nvidia.com/gpumem":"7k"}}}})";
    const auto second = translate_json(after);
    CHECK(second.referenced_templates.size() == 1);
    CHECK(second.restorable.empty());
}

TEST_CASE("an init container with a compute figure does not cap a main container without one") {
    json pod = pod_with({share("main", "3k")});
    json init = share("init", "2k");
    init["resources"]["limits"]["nvidia.com/gpucores"] = "30";
    pod["spec"]["initContainers"] = json::array({init});
    CHECK(translate_json(pod).templates.size() == 2);
    init["resources"]["limits"]["nvidia.com/gpucores"] = "100";
    pod["spec"]["initContainers"] = json::array({init});
    const auto shared = translate_json(pod);
    CHECK(shared.templates.size() == 1);
    CHECK(says(shared, Code::peak_shared));
}

TEST_CASE("the cheapest main container grows for an init container") {
    json pod = pod_with({share("small", "1k"), share("large", "5k")});
    pod["spec"]["initContainers"] = json::array({share("init", "6k")});
    const json after = patched(pod, translate_json(pod));
    CHECK(after["spec"]["initContainers"][0]["resources"]["claims"][0]["name"] == "vgpu-1");
    CHECK(after["spec"]["resourceClaims"].size() == 2);
}

TEST_CASE("an init container joins its equal rather than a claim for all memory of any card") {
    json init = share("init", "16384");
    json whole = {{"name", "whole"}, {"resources", limits({{"nvidia.com/gpu", "1"}})}};
    json pod = pod_with({whole, share("equal", "16384")});
    pod["spec"]["initContainers"] = {init};
    const json after = patched(pod, translate_json(pod));
    CHECK(after["spec"]["initContainers"][0]["resources"] ==
          after["spec"]["containers"][1]["resources"]);
}

TEST_CASE("a namespace opts out by the label that holds its name, unless another is meant") {
    const json pod = pod_with({share("a", "3k")});
    Settings settings;
    settings.policy.opt_out_labels = {{"kubernetes.io/metadata.name", "private"}};
    const auto document = parse_json(pod.dump());
    REQUIRE(document.has_value());
    const auto verdict = [&](std::string_view name_space) {
        const PodReview review{document->root(), {}, Operation::create, {}, name_space};
        return translate_pod(review, settings, {}).verdict;
    };
    CHECK(verdict("private") == Verdict::leave);
    CHECK(verdict("public") == Verdict::translate);
    CHECK(verdict("") == Verdict::translate);
}

TEST_CASE("a long figure is shown by its first bytes") {
    const std::string digits(4000, '7');
    for (const std::string& figure : {digits, digits + "x"}) {
        const auto found = translate_json(pod_with({share("a", figure.c_str())})).diagnostics;
        REQUIRE(found.size() == 1);
        CHECK(found.front().value == std::string(64, '7') + "...");
        CHECK(found.front().message.size() < 300);
    }
}
