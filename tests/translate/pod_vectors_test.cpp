// The vectors of legacy-requests.md section 10 on whole pods: 48, 82, 93 to 128.

#include "tests/translate/vector_support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace drawbridge::oracle {
namespace {

using nlohmann::json;
using translate::Verdict;

TEST_CASE("vector 48: other resource names, and nvidia.com/gpu is then foreign") {
    auto site = site_for("drawbridge", 36);
    site.settings.resources.count = "acme.io/vgpu";
    auto input =
        pod_of({{"main", Sort::main, false, {{"acme.io/vgpu", "1"}, {"nvidia.com/gpu", "1"}}, {}}});
    const auto tried = try_pod(input, site);
    CHECK(tried.read.after["spec"]["containers"][0]["resources"]["limits"] ==
          json{{"nvidia.com/gpu", "1"}});
    CHECK(tried.translation.templates.size() == 1);
}

TEST_CASE(
    "vector 82: the mode mig goes to the class that the settings name, by memory and count, not "
    "distinct") {
    auto site = site_for("drawbridge", 36);
    auto input = pod_of({container("main", Sort::main, "gpu:2 mem:8000")});
    input.annotations["nvidia.com/vgpu-mode"] = "mig";
    CHECK(has_code(ask(input, site).translation, "mode-unsupported"));
    auto part = pod_of({container("main", Sort::main, "gpu:1 mem:8000 cores:30")});
    part.annotations = input.annotations;
    site.settings.target.mode_classes["mig"] = {.device_class = "mig.example.com",
                                                .driver = "mig.example.com"};
    const auto refused = ask(part, site).translation;
    CHECK(has_code(refused, "fraction-unsupported"));
    CHECK(refused.diagnostics.front().resource == site.settings.resources.cores);
    const auto tried = ask(input, site);
    REQUIRE(tried.translation.verdict == Verdict::translate);
    const auto read = read_translation(tried.pod, tried.translation, site.settings);
    const auto& claim = read.claims.begin()->second;
    CHECK(claim.count() == 2);
    CHECK(claim.constraints.empty());
    for (const auto& request : claim.requests) {
        CHECK(request.alternatives[0].device_class == "mig.example.com");
        CHECK(request.alternatives[0].amounts.empty());
        ModelDevice device{"mig", "mig.example.com", {}, {{"memory", 7999LL << 20U}}};
        CHECK_FALSE(request.alternatives[0].takes(device));
        device.capacity["memory"] = 8000LL << 20U;
        CHECK(request.alternatives[0].takes(device));
    }
}

TEST_CASE("vectors 93 and 94: a label on pod or namespace keeps us away") {
    auto input = pod_of({container("main", Sort::main, "gpu:1")});
    input.labels["hami.io/webhook"] = "ignore";
    auto tried = try_pod(input);
    CHECK(tried.translation.verdict == Verdict::leave);
    CHECK(has_code(tried.translation, "opted-out"));
    std::swap(input.labels, input.namespace_labels);
    tried = try_pod(input);
    CHECK(tried.translation.verdict == Verdict::leave);
    CHECK(has_code(tried.translation, "opted-out"));
}

TEST_CASE("vectors 96 to 99: schedulers") {
    auto input = pod_of({container("main", Sort::main, "gpu:1")});
    for (const auto& [scheduler, figures_text, verdict] :
         {std::tuple{"hami-scheduler", "gpu:1", Verdict::translate},
          {"hami-scheduler", "", Verdict::translate},
          {"volcano", "gpu:1", Verdict::leave},
          {"default-scheduler", "gpu:1", Verdict::translate}}) {
        CAPTURE(scheduler);
        input.containers = {container("main", Sort::main, figures_text)};
        input.scheduler = scheduler;
        const auto tried = try_pod(input);
        CHECK(tried.translation.verdict == verdict);
        CHECK(tried.read.claims.size() ==
              (verdict == Verdict::translate && *figures_text != 0 ? 1 : 0));
        CHECK(has_code(tried.translation, "foreign-scheduler") == (input.scheduler == "volcano"));
    }
    auto site = site_for("drawbridge", 36);
    site.settings.policy.capable_schedulers = {"volcano"};
    input.scheduler = "volcano";
    const auto tried = try_pod(input, site);
    CHECK(tried.translation.verdict == Verdict::translate);
    CHECK(tried.read.after["spec"]["schedulerName"] == "volcano");
}

TEST_CASE("vectors 100 to 102: privileged containers in a GPU pod are refused, and only there") {
    auto site = site_for("drawbridge", 36);
    auto input =
        pod_of({container("main", Sort::main, "gpu:1"), container("helper", Sort::main, "")});
    for (const std::size_t privileged : {0U, 1U}) {
        input.containers[0].privileged = privileged == 0;
        input.containers[1].privileged = privileged == 1;
        const auto tried = try_pod(input);
        CHECK(tried.translation.verdict == Verdict::deny);
        REQUIRE(tried.translation.diagnostics.size() == 1);
        CHECK(name(tried.translation.diagnostics[0].code) == "privileged-container");
        CHECK(tried.translation.diagnostics[0].container == input.containers[privileged].name);
    }
    site.settings.policy.privileged = translate::Deny::no;
    CHECK(try_pod(input, site).translation.verdict == Verdict::translate);
    for (const auto* no_gpu :
         {"", "gpu:0", "prio:1"}) {  // design: those trigger no denial for privilege or node name
        input.containers[0] = container("main", Sort::main, no_gpu);
        input.node_name = "node-a";
        CHECK(try_pod(input).translation.verdict ==
              (*no_gpu == 0 ? Verdict::leave : Verdict::translate));
    }
}

TEST_CASE("what else is wrong is said too where the request for a GPU itself is refused") {
    for (const auto& [limits, requests] :
         {std::pair("", "gpu:1"), std::pair("", "mem:3000"), std::pair("gpu:0.5", "")}) {
        CAPTURE(limits);
        CAPTURE(requests);
        auto input = pod_of({{"main", Sort::main, true, figures(limits), figures(requests)}});
        input.annotations["nvidia.com/vgpu-mode"] = "mig";
        const auto tried = try_pod(input);
        CHECK(tried.translation.verdict == Verdict::deny);
        CHECK(tried.translation.diagnostics.size() == 3);
        CHECK(has_code(tried.translation, "privileged-container"));
        CHECK(has_code(tried.translation, "mode-unsupported"));
    }
    auto no_gpu = pod_of({{"main", Sort::main, true, {}, figures("prio:0")}});
    CHECK_FALSE(has_code(try_pod(no_gpu).translation, "privileged-container"));
}

TEST_CASE("vector 103: a preset node name is refused") {
    auto input = pod_of({container("main", Sort::main, "gpu:1")});
    input.node_name = "node-a";
    const auto tried = try_pod(input);
    CHECK(tried.translation.verdict == Verdict::deny);
    CHECK(has_code(tried.translation, "node-name-set"));
    CHECK(tried.translation.diagnostics[0].path == "/spec/nodeName");
}

TEST_CASE("vectors 104, 105 and 128: names come from the shape alone") {
    const auto site = site_for("drawbridge", 36);
    const auto limits = R"("resources":{"limits":{"nvidia.com/gpumem":"3k"}})";
    const auto pod = [&](const std::string& metadata, const std::string& name) {
        return R"({"metadata":)" + metadata + R"(,"spec":{"containers":[{"name":")" + name + "\"," +
               limits + "}]}}";
    };
    const std::string dots(60, '.');
    const auto one =
        translate_text(pod(R"({"generateName":"web-"})", "main"), site.settings, site.cluster);
    const auto two = translate_text(pod(R"({"name":"a)" + dots + R"(b","namespace":"x"})", "other"),
                                    site.settings, site.cluster);
    REQUIRE(one.templates.size() == 1);
    REQUIRE(two.templates.size() == 1);
    CHECK(one.templates[0].name == two.templates[0].name);
    CHECK(kube::to_json(one.templates[0].spec) == kube::to_json(two.templates[0].spec));
    CHECK(one.patch.to_json().find("vgpu-0") != std::string::npos);
}

/// Containers by claim: `a+b c` means that a and b share one, and c has its own.
std::string grouping(const ReadPod& pod) {
    std::map<std::string, std::string> groups;
    for (const auto& container_json : containers_of(pod.after)) {
        const std::string name = container_json["name"];
        if (!pod.claim_of.contains(name)) continue;
        auto& group = groups[pod.claim_of.at(name)];
        group += (group.empty() ? "" : "+") + name;
    }
    std::vector<std::string> sorted;
    for (const auto& [entry, group] : groups)
        sorted.push_back(group);
    std::sort(sorted.begin(), sorted.end());
    std::string out;
    for (const auto& group : sorted)
        out += (out.empty() ? "" : " ") + group;
    return out;
}

TEST_CASE("vectors 106 to 113: several containers") {
    struct Row {
        int number;
        std::vector<ContainerInput> containers;
        std::string groups;
        std::size_t templates;
    };
    const auto init = [](const char* text) { return container("i", Sort::init, text); };
    const auto sidecar = [](const char* text) { return container("s", Sort::sidecar, text); };
    const auto a = [](const char* text) { return container("a", Sort::main, text); };
    const auto b = [](const char* text) { return container("b", Sort::main, text); };
    const std::vector<Row> rows{
        {106, {init("gpu:1"), a("gpu:1")}, "i+a", 1},
        {107, {init("mem:2000"), a("mem:10000")}, "i+a", 1},
        // Decision 17: peak, not sum: one claim {0, 20000}, where the vector has two by default.
        {108, {init("mem:20000"), a("mem:10000")}, "i+a", 1},
        // The vector says that nothing can be merged. Decision 17 merges what caps nobody, and 100
        // % is no cap.
        {109, {init("gpu:1"), a("mem:2000"), b("mem:2000")}, "b i+a", 2},
        // A figure below 100 would cap the container that has none: each keeps its own claim.
        {1090, {init("mem:1000 cores:30"), a("mem:2000")}, "a i", 2},
        {1091, {init("mem:1000"), a("mem:2000 cores:30")}, "a i", 2},
        {110, {a("mem:2000"), b("mem:2000")}, "a b", 1},
        {111, {a("gpu:1"), b("gpu:1")}, "a b", 1},
        {112, {sidecar("mem:1000"), a("mem:2000")}, "a s", 2},
        {113, {init("gpu:1"), a("")}, "i", 1},
        {1080,
         {init("mem:3000"), a("mem:9000"), b("mem:2000")},
         "b i+a",
         2},  // the claim that covers it
        {1081,
         {init("mem:3000"), a("mem:1000"), b("mem:2000")},
         "a i+b",
         2},  // the one that grows least
        {1082, {init("gpu:2 mem:3000"), a("gpu:1 mem:9000")}, "a i", 2},
        {1083, {init("mem:3000 prio:1"), a("mem:9000 prio:0")}, "a i", 2},
        {1084,
         {init("mem:3000 cores:10"), container("j", Sort::init, "mem:2000 cores:20"), a("")},
         "i+j",
         1},
    };
    for (const auto& row : rows) {
        CAPTURE(row.number);
        const auto tried = try_pod(pod_of(row.containers));
        CHECK(tried.translation.verdict == Verdict::translate);
        CHECK(grouping(tried.read) == row.groups);
        CHECK(tried.translation.templates.size() == row.templates);
    }
}

TEST_CASE("a main container that gets more than it asked for is told") {
    const auto told = [](const Tried& tried) { return has_code(tried.translation, "peak-shared"); };
    CHECK(told(try_pod(
        pod_of({container("i", Sort::init, "mem:6000"), container("a", Sort::main, "mem:4000")}))));
    CHECK_FALSE(told(try_pod(
        pod_of({container("i", Sort::init, "mem:2000"), container("a", Sort::main, "mem:4000")}))));
}

TEST_CASE("vector 114: ephemeral containers are left alone") {
    const auto site = site_for("drawbridge", 36);
    const std::string pod =
        R"({"spec":{"containers":[{"name":"m"}],"ephemeralContainers":[{"name":"e",
           "resources":{"limits":{"nvidia.com/gpu":"1"}}}]}})";
    const auto translation = translate_text(pod, site.settings, site.cluster);
    CHECK(translation.verdict == Verdict::leave);
    CHECK(translation.patch.empty());
}

std::string variable(const json& container_json, const std::string& wanted) {
    std::string found;
    for (const auto& entry : container_json.value("env", json::array())) {
        if (entry["name"] == wanted) found += (found.empty() ? "" : ",") + entry.value("value", "");
    }
    return found;
}

TEST_CASE("vectors 115 to 121: variables and the runtime class, where the settings ask for them") {
    auto site = site_for("hami", 36);
    site.settings.policy.hide_gpus_from_others = true;
    site.settings.policy.runtime_class = "nvidia";
    site.settings.policy.core_policy = translate::CorePolicy::force;
    const auto pod = [&](const std::string& first, const std::string& rest) {
        const std::string text =
            R"({"spec":{"containers":[{"name":"a")" + first + R"(},{"name":"b"}])" + rest + "}}";
        const auto translation = translate_text(text, site.settings, site.cluster);
        return json::parse(text).patch(json::parse(translation.patch.to_json()))["spec"];
    };
    const std::string gpu =
        R"(,"resources":{"limits":{"nvidia.com/gpumem":"3k","nvidia.com/priority":"0"}})";
    auto spec = pod(gpu, "");
    CHECK(variable(spec["containers"][1], "NVIDIA_VISIBLE_DEVICES") == "none");  // 115
    CHECK(variable(spec["containers"][0], "NVIDIA_VISIBLE_DEVICES") == "");
    CHECK(variable(spec["containers"][0], "CUDA_TASK_PRIORITY") == "0");               // 117
    CHECK(variable(spec["containers"][0], "GPU_CORE_UTILIZATION_POLICY") == "force");  // 119
    CHECK(variable(spec["containers"][1], "GPU_CORE_UTILIZATION_POLICY") == "");
    CHECK(spec["runtimeClassName"] == "nvidia");  // 121
    spec =
        pod(R"(,"env":[{"name":"X","value":"1"},{"name":"CUDA_TASK_PRIORITY","value":"1"}])" + gpu,
            R"(,"runtimeClassName":"own")");
    CHECK(variable(spec["containers"][0], "CUDA_TASK_PRIORITY") == "0");  // 120
    CHECK(variable(spec["containers"][0], "X") == "1");
    CHECK(spec["runtimeClassName"] == "own");
    CHECK(variable(pod("", "")["containers"][0], "NVIDIA_VISIBLE_DEVICES") == "none");  // 116
    site.settings.policy.hide_gpus_from_others = false;
    CHECK(variable(pod("", "")["containers"][0], "NVIDIA_VISIBLE_DEVICES") == "");
}

TEST_CASE("vector 122: limits that cannot be switched off any more are a warning") {
    const auto site = site_for("drawbridge", 36);
    const auto translation = translate_text(
        R"({"spec":{"containers":[{"name":"a","env":[{"name":"CUDA_DISABLE_CONTROL","value":"true"}],
            "resources":{"limits":{"nvidia.com/gpumem":"3k"}}}]}})",
        site.settings, site.cluster);
    CHECK(translation.verdict == Verdict::translate);
    CHECK(has_code(translation, "control-disabled"));
}

TEST_CASE("vectors 118 and 123 to 125: limits and requests") {
    struct Row {
        int number;
        const char* limits;
        const char* requests;
        const char* code;
    };
    for (const auto& row :
         {Row{118, "", "prio:0", "limit-missing"}, Row{123, "", "gpu:1", "limit-missing"},
          Row{124, "gpu:1", "gpu:2", "request-differs"}, Row{125, "mem:3000", "gpu:1", ""},
          Row{1251, "mem:3000", "gpu:2", "request-differs"}, Row{1252, "mem:3k", "mem:3000", ""}}) {
        CAPTURE(row.number);
        const auto tried = try_pod(
            pod_of({{"main", Sort::main, false, figures(row.limits), figures(row.requests)}}));
        CHECK(tried.translation.verdict == (*row.code == 0 ? Verdict::translate : Verdict::deny));
        if (*row.code != 0) CHECK(has_code(tried.translation, row.code));
    }
}

TEST_CASE("vectors 126 and 127: claims of the pod's own stay first, and names never collide") {
    const auto site = site_for("drawbridge", 36);
    const std::string pod =
        R"({"spec":{"resourceClaims":[{"name":"nic","resourceClaimName":"n"},{"name":"vgpu-0","resourceClaimName":"v"}],
            "containers":[{"name":"a","resources":{"claims":[{"name":"nic"}],"limits":{"nvidia.com/gpu":"1"}}}]}})";
    const auto read =
        read_translation(pod, translate_text(pod, site.settings, site.cluster), site.settings);
    REQUIRE(read.claims.size() == 1);
    CHECK(read.claims.begin()->first == "vgpu-0-2");
    CHECK(read.after["spec"]["containers"][0]["resources"]["claims"][0]["name"] == "nic");
}

}  // namespace
}  // namespace drawbridge::oracle
