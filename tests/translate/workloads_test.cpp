// Where kinds keep their pod templates.

#include "translate/workloads.hpp"

#include "base/json.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge;
using Paths = std::vector<std::string>;

namespace {

Paths paths_of(std::string text, const translate::Settings& settings = {}) {
    const auto document = base::parse_json(std::move(text));
    REQUIRE(document.has_value());
    return translate::pod_template_paths(document->root(), settings);
}

}  // namespace

TEST_CASE("pod templates are found where each kind keeps them") {
    CHECK(paths_of(R"({"apiVersion":"v1","kind":"Pod","spec":{}})") == Paths{""});
    CHECK(paths_of(R"({"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{}}})") ==
          Paths{"/spec/template"});
    CHECK(paths_of(R"({"apiVersion":"batch/v1","kind":"CronJob",
                       "spec":{"jobTemplate":{"spec":{"template":{}}}}})") ==
          Paths{"/spec/jobTemplate/spec/template"});
    CHECK(paths_of(R"({"apiVersion":"ray.io/v1","kind":"RayCluster","spec":{
                       "headGroupSpec":{"template":{}},
                       "workerGroupSpecs":[{"template":{}},{"template":{}}]}})") ==
          Paths{"/spec/headGroupSpec/template", "/spec/workerGroupSpecs/0/template",
                "/spec/workerGroupSpecs/1/template"});
    CHECK(paths_of(R"({"apiVersion":"kubeflow.org/v1","kind":"PyTorchJob","spec":{
                       "pytorchReplicaSpecs":{"Master":{"template":{}},"a/b":{"template":{}}}}})") ==
          Paths{"/spec/pytorchReplicaSpecs/Master/template",
                "/spec/pytorchReplicaSpecs/a~1b/template"});
    CHECK(
        paths_of(R"({"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainingRuntime","spec":{
                       "template":{"spec":{"replicatedJobs":[
                       {"template":{"spec":{"template":{}}}}]}}}})") ==
        Paths{"/spec/template/spec/replicatedJobs/0/template/spec/template"});
}

TEST_CASE("a kind is known by its group, and what is not there is not found") {
    CHECK(paths_of(R"({"apiVersion":"v1","kind":"Service","spec":{"template":{}}})").empty());
    CHECK(
        paths_of(R"({"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":7}})").empty());
    CHECK(paths_of(R"({"apiVersion":"apps/v1","kind":"Deployment","spec":null})").empty());
    CHECK(paths_of(R"({"kind":7})").empty());
    CHECK(paths_of("[]").empty());
}

TEST_CASE("the settings add kinds, and say otherwise of known ones") {
    translate::Settings settings;
    settings.workloads = {{"example.com", "Train", {"/spec/steps/*/pod"}},
                          {"batch", "Job", {"/spec/other"}}};
    CHECK(
        paths_of(R"({"apiVersion":"example.com/v2","kind":"Train","spec":{"steps":[{"pod":{}}]}})",
                 settings) == Paths{"/spec/steps/0/pod"});
    CHECK(paths_of(R"({"apiVersion":"batch/v1","kind":"Job","spec":{"template":{},"other":{}}})",
                   settings) == Paths{"/spec/other"});
}
