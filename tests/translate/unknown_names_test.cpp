#include "tests/translate/vector_support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace drawbridge::oracle {
namespace {

/// The names that an answer warns of under a code.
std::vector<std::string> warned(const translate::Translation& answer, std::string_view code) {
    std::vector<std::string> names;
    for (const auto& diagnostic : answer.diagnostics) {
        if (name(diagnostic.code) == code) names.push_back(diagnostic.resource);
    }
    return names;
}

TEST_CASE("annotations that look like HAMi's and are none that count are told, each by its name") {
    auto input = pod_of({container("main", Sort::main, "gpu:1 mem:3000")});
    const std::vector<std::string> told = {"hami.io/gpu-schedule-policy",
                                           "hami.io/numa-alignment",
                                           "hami.io/webhook",
                                           "nvidia.com/mig-profile-preference",
                                           "nvidia.com/nouse-GPUtype",
                                           "nvidia.com/nouse-gpuindexes",
                                           "nvidia.com/use-gpu-uuid"};
    for (const auto& name : told)
        input.annotations[name] = "x";
    for (const char* name :
         {"hami.io/vgpu-node", "hami.io/bind-time", "hami.io/Ascend910B-devices-allocated",
          "hami.io/use-Ascend910B-uuid", "nvidia.com/dynamo-discovery-backend",
          "example.com/use-gpuindexes", "hami.io/node-scheduler-policy", "volcano.sh/vgpu-mode"}) {
        input.annotations[name] = "x";
    }
    const auto answer = try_pod(input).translation;
    CHECK(answer.verdict == translate::Verdict::translate);
    auto found = warned(answer, "annotation-ignored");
    std::ranges::sort(found);
    CHECK(found == told);
    for (const auto& diagnostic : answer.diagnostics) {
        if (diagnostic.resource == "hami.io/gpu-schedule-policy")
            CHECK(diagnostic.fix == "write hami.io/gpu-scheduler-policy");
    }
}

TEST_CASE("a label that was meant as an annotation is told, and the other way round") {
    auto input = pod_of({container("main", Sort::main, "gpu:1 mem:3000")});
    input.annotations["hami.io/webhook"] = "ignore";
    input.labels = {{"nvidia.com/use-gputype", "A100"}, {"nvidia.com/gpu", "on"}, {"app", "x"}};
    const auto answer = try_pod(input).translation;
    CHECK(answer.verdict == translate::Verdict::translate);
    auto found = warned(answer, "annotation-ignored");
    std::ranges::sort(found);
    CHECK(found == std::vector<std::string>{"hami.io/webhook", "nvidia.com/use-gputype"});
    for (const auto& diagnostic : answer.diagnostics) {
        if (diagnostic.resource == "hami.io/webhook") {
            CHECK(diagnostic.fix == "write it under metadata.labels");
        } else if (diagnostic.resource == "nvidia.com/use-gputype") {
            CHECK(diagnostic.path == "/metadata/labels/nvidia.com~1use-gputype");
            CHECK(diagnostic.fix == "write it under metadata.annotations");
        }
    }
}

TEST_CASE("a pod without a device is not told of annotations") {
    auto input = pod_of({container("main", Sort::main, "gpu:0")});
    input.annotations["nvidia.com/use-gpuindexes"] = "0";
    CHECK(warned(try_pod(input).translation, "annotation-ignored").empty());
}

TEST_CASE("many unknown annotations are not each told") {
    auto input = pod_of({container("main", Sort::main, "gpu:1")});
    for (int number = 0; number < 100; ++number)
        input.annotations["hami.io/x" + std::to_string(number)] = "";
    CHECK(warned(try_pod(input).translation, "annotation-ignored").size() == 16);
}

TEST_CASE("resources that speak of GPUs beside legacy ones and are none are told") {
    Texts limits = figures("mem:3000");
    for (const char* name : {"nvidia.com/vgpu", "nvidia.com/gpucroes", "nvidia.com/mig-1g.5gb",
                             "huawei.com/Ascend910B", "example.com/gpu", "cpu"}) {
        limits[name] = "1";
    }
    auto input = pod_of({{"main", Sort::main, false, limits, limits},
                         {"other", Sort::main, false, {{"nvidia.com/vgpu", "1"}}, {}}});
    const auto tried = try_pod(input);
    auto found = warned(tried.translation, "resource-unknown");
    std::ranges::sort(found);
    CHECK(found == std::vector<std::string>{"nvidia.com/gpucroes", "nvidia.com/vgpu"});
    CHECK(tried.read.after["spec"]["containers"][0]["resources"]["limits"].size() == 6);
    auto site = site_for("drawbridge", 36);
    site.settings.resources.count = "example.com/cards";
    found = warned(try_pod(input, site).translation, "resource-unknown");
    std::ranges::sort(found);
    CHECK(found ==
          std::vector<std::string>{"example.com/gpu", "nvidia.com/gpucroes", "nvidia.com/vgpu"});
}

}  // namespace
}  // namespace drawbridge::oracle
