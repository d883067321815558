#include "cli/object.hpp"

#include "base/json.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

using namespace drawbridge;
using translate::Verdict;

namespace {

constexpr std::string_view pod_spec =
    R"({"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":1}}}]})";
constexpr std::string_view wrong_spec =
    R"({"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"0.5"}}}]})";

cli::ObjectAnswer answer_to(const std::string& json, const cli::TranslateContext& context = {}) {
    const auto document = base::parse_json(json);
    REQUIRE(document);
    return cli::translate_object(document->root(), cli::identify(document->root(), ""), context);
}

/// A gang of two pods, each with its own spec.
std::string gang(std::string_view first, std::string_view second) {
    std::string json =
        R"({"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","spec":{"schedulerName":"default-scheduler","tasks":[)";
    json.append(R"({"template":{"spec":)").append(first).append("}},");
    json.append(R"({"template":{"spec":)").append(second).append("}}]}}");
    return json;
}

}  // namespace

TEST_CASE("an object is named by its name, else by the one that will be generated") {
    const auto document = base::parse_json(
        R"({"kind":"Pod","metadata":{"generateName":"train-","namespace":"team"}})");
    const cli::Identity identity = cli::identify(document->root(), "other");
    CHECK(identity.kind == "Pod");
    CHECK(identity.name == "");
    CHECK(identity.generate_name == "train-");
    CHECK(identity.name_space == "team");
    CHECK(cli::identify(base::JsonView(), "other").name_space == "other");
}

TEST_CASE("all pod templates of an object are translated, a template they share once") {
    const cli::ObjectAnswer answer = answer_to(gang(pod_spec, pod_spec));
    CHECK(answer.verdict == Verdict::translate);
    CHECK(answer.templates.size() == 1);
    bool first = false;
    bool second = false;
    for (const auto& operation : answer.patch.operations()) {
        first = first || operation.path.starts_with("/spec/tasks/0/template/");
        second = second || operation.path.starts_with("/spec/tasks/1/template/");
    }
    CHECK(first);
    CHECK(second);
}

TEST_CASE("the worst pod template decides, and nothing is written of a denied object") {
    const cli::ObjectAnswer answer = answer_to(gang(pod_spec, wrong_spec));
    CHECK(answer.verdict == Verdict::deny);
    CHECK(answer.patch.empty());
    CHECK(answer.templates.empty());
    REQUIRE_FALSE(answer.diagnostics.empty());
    CHECK(answer.diagnostics.front().path ==
          "/spec/tasks/1/template/spec/containers/0/resources/limits/nvidia.com~1gpu");
}

TEST_CASE("what stands on a workload and not on its pods is told, by its name") {
    const std::string deployment = fmt::format(
        R"({{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{)"
        R"("labels":{{"hami.io/webhook":"ignore","app":"x"}},)"
        R"("annotations":{{"nvidia.com/use-gputype":"A100"}}}},"spec":{{"template":{{"spec":{}}}}}}})",
        pod_spec);
    const cli::ObjectAnswer answer = answer_to(deployment);
    CHECK(answer.verdict == Verdict::translate);
    REQUIRE(answer.diagnostics.size() == 2);
    CHECK(answer.diagnostics[0].path == "/metadata/annotations/nvidia.com~1use-gputype");
    CHECK(answer.diagnostics[0].fix == "move it to metadata.annotations of the pod template");
    CHECK(answer.diagnostics[1].path == "/metadata/labels/hami.io~1webhook");
    CHECK(answer.diagnostics[1].message ==
          "label hami.io/webhook: ignore stands on the Deployment and not on its pods; it has no "
          "effect");
    CHECK(answer.diagnostics[1].fix == "move it to metadata.labels of the pod template");
}

TEST_CASE("GPU resources in what is no list of containers, or no map of amounts, are told") {
    for (const char* containers :
         {R"({"main":{"resources":{"limits":{"nvidia.com/gpu":1}}}})",
          R"([{"name":"main","resources":{"limits":[{"nvidia.com/gpu":1}]}}])",
          R"([{"name":"main","resources":[{"nvidia.com/gpu":1}]}])",
          R"([{"name":"main","limits":{"nvidia.com/gpu":1}}])",
          R"([{"name":"main","resources":{"nvidia.com/gpu":1}}])"}) {
        CAPTURE(std::string(containers));
        const cli::ObjectAnswer answer = answer_to(fmt::format(
            R"({{"apiVersion":"v1","kind":"Pod","spec":{{"containers":{}}}}})", containers));
        CHECK(answer.verdict == Verdict::leave);
        REQUIRE(answer.diagnostics.size() == 1);
        CHECK(answer.diagnostics.front().code == translate::Code::legacy_in_unknown_kind);
        CHECK(answer.diagnostics.front().path.ends_with("/nvidia.com~1gpu"));
    }
}

TEST_CASE("a legacy name in an unknown kind is reported with its place") {
    const cli::ObjectAnswer answer = answer_to(
        R"({"kind":"Odd","spec":{"a":[{"requests":{"nvidia.com/gpumem":5}}],"limits":3}})");
    CHECK(answer.verdict == Verdict::leave);
    REQUIRE(answer.diagnostics.size() == 1);
    CHECK(answer.diagnostics.front().code == translate::Code::legacy_in_unknown_kind);
    CHECK(answer.diagnostics.front().path == "/spec/a/0/requests/nvidia.com~1gpumem");
    CHECK(answer_to(R"({"kind":"Odd","data":{"nvidia.com/gpu":"1"}})").diagnostics.empty());
}

TEST_CASE("a Volcano Job hands its scheduler to the pods that name none") {
    const std::string gang_text = gang(pod_spec, pod_spec);
    const std::string named = R"("schedulerName":"default-scheduler",)";
    const auto with = [&](std::string_view scheduler) {
        std::string text = gang_text;
        return text.replace(text.find(named), named.size(), scheduler);
    };
    const std::string legacy = R"("schedulerName":"hami-scheduler",)";
    for (const std::string_view foreign : {"", R"("schedulerName":"volcano",)"}) {
        const cli::ObjectAnswer left = answer_to(with(foreign));
        CHECK(left.verdict == Verdict::leave);
        REQUIRE_FALSE(left.diagnostics.empty());
        CHECK(left.diagnostics.front().code == translate::Code::foreign_scheduler);
    }
    cli::TranslateContext capable;
    capable.settings.policy.capable_schedulers = {"volcano"};
    CHECK(answer_to(with(""), capable).verdict == Verdict::translate);

    const cli::ObjectAnswer replaced = answer_to(with(legacy));
    CHECK(replaced.verdict == Verdict::translate);
    const auto& operations = replaced.patch.operations();
    CHECK(std::ranges::count(operations, "/spec/tasks/1/template/spec/schedulerName",
                             &kube::PatchOperation::path) == 1);
}

TEST_CASE("a custom resource is translated with a note that its definition must keep claims") {
    const auto noted = [](const cli::ObjectAnswer& answer) {
        return std::ranges::count(answer.diagnostics, translate::Code::custom_resource,
                                  &translate::Diagnostic::code);
    };
    CHECK(noted(answer_to(gang(pod_spec, pod_spec))) == 1);
    CHECK(noted(answer_to(gang("{}", "{}"))) == 0);
    CHECK(noted(answer_to(R"({"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":)" +
                          std::string(pod_spec) + "}}}")) == 0);
}

TEST_CASE(
    "kinds whose API keeps no claims are left to the webhook, unless the settings list them") {
    for (const std::string_view kind : {R"("apiVersion":"serving.knative.dev/v1","kind":"Service")",
                                        R"("apiVersion":"kubeflow.org/v1","kind":"Notebook")"}) {
        const std::string text =
            fmt::format(R"({{{},"spec":{{"template":{{"spec":{}}}}}}})", kind, pod_spec);
        const cli::ObjectAnswer answer = answer_to(text);
        CHECK(answer.verdict == Verdict::leave);
        REQUIRE(answer.diagnostics.size() == 1);
        CHECK(answer.diagnostics.front().code == translate::Code::claims_not_kept);
        CHECK(answer.diagnostics.front().severity == translate::Severity::note);
    }
    cli::TranslateContext newer;
    newer.settings.workloads = {{"serving.knative.dev", "Service", {"/spec/template"}}};
    CHECK(
        answer_to(
            R"({"apiVersion":"serving.knative.dev/v1","kind":"Service","spec":{"template":{"spec":)" +
                std::string(pod_spec) + "}}}",
            newer)
            .verdict == Verdict::translate);
}

TEST_CASE("an Argo template has no place for claims, which a note says") {
    const cli::ObjectAnswer answer =
        answer_to(R"({"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","spec":{"templates":[)"
                  R"({"container":{"resources":{"limits":{"nvidia.com/gpu":1}}}}]}})");
    REQUIRE(answer.diagnostics.size() == 1);
    CHECK(answer.diagnostics.front().code == translate::Code::claims_not_kept);
    CHECK(answer.diagnostics.front().path ==
          "/spec/templates/0/container/resources/limits/nvidia.com~1gpu");
    CHECK(answer.diagnostics.front().message.find("Workflow") != std::string::npos);
}

TEST_CASE("the labels of the object's namespace count") {
    cli::TranslateContext context;
    context.namespace_labels["team"] = {{"hami.io/webhook", "ignore"}};
    const std::string spec(pod_spec);
    const std::string inside =
        R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"team"},"spec":)" + spec + "}";
    CHECK(answer_to(inside, context).verdict == Verdict::leave);
    CHECK(answer_to(R"({"apiVersion":"v1","kind":"Pod","spec":)" + spec + "}", context).verdict ==
          Verdict::translate);
}
