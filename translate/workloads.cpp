#include "translate/workloads.hpp"

#include "kube/json_patch.hpp"

#include <algorithm>

namespace drawbridge::translate {

namespace {

const std::vector<WorkloadKind>& table() {
    static const std::vector<WorkloadKind> kinds = {
        {"", "Pod", {""}},
        {"", "PodTemplate", {"/template"}},
        {"", "ReplicationController", {"/spec/template"}},
        {"apps", "DaemonSet", {"/spec/template"}},
        {"apps", "Deployment", {"/spec/template"}},
        {"apps", "ReplicaSet", {"/spec/template"}},
        {"apps", "StatefulSet", {"/spec/template"}},
        {"batch", "CronJob", {"/spec/jobTemplate/spec/template"}},
        {"batch", "Job", {"/spec/template"}},
        {"batch.volcano.sh", "CronJob", {"/spec/jobTemplate/spec/tasks/*/template"}},
        {"batch.volcano.sh", "Job", {"/spec/tasks/*/template"}},
        {"flow.volcano.sh", "JobTemplate", {"/spec/tasks/*/template"}},
        {"jobset.x-k8s.io", "JobSet", {"/spec/replicatedJobs/*/template/spec/template"}},
        {"kubeflow.org", "JAXJob", {"/spec/jaxReplicaSpecs/*/template"}},
        {"kubeflow.org", "MPIJob", {"/spec/mpiReplicaSpecs/*/template"}},
        {"kubeflow.org", "PaddleJob", {"/spec/paddleReplicaSpecs/*/template"}},
        {"kubeflow.org", "PyTorchJob", {"/spec/pytorchReplicaSpecs/*/template"}},
        {"kubeflow.org", "TFJob", {"/spec/tfReplicaSpecs/*/template"}},
        {"kubeflow.org", "XGBoostJob", {"/spec/xgbReplicaSpecs/*/template"}},
        {"leaderworkerset.x-k8s.io",
         "LeaderWorkerSet",
         {"/spec/leaderWorkerTemplate/leaderTemplate",
          "/spec/leaderWorkerTemplate/workerTemplate"}},
        {"ray.io",
         "RayCluster",
         {"/spec/headGroupSpec/template", "/spec/workerGroupSpecs/*/template"}},
        {"ray.io",
         "RayJob",
         {"/spec/rayClusterSpec/headGroupSpec/template",
          "/spec/rayClusterSpec/workerGroupSpecs/*/template", "/spec/submitterPodTemplate"}},
        {"ray.io",
         "RayService",
         {"/spec/rayClusterConfig/headGroupSpec/template",
          "/spec/rayClusterConfig/workerGroupSpecs/*/template"}},
        {"trainer.kubeflow.org",
         "ClusterTrainingRuntime",
         {"/spec/template/spec/replicatedJobs/*/template/spec/template"}},
        {"trainer.kubeflow.org",
         "TrainingRuntime",
         {"/spec/template/spec/replicatedJobs/*/template/spec/template"}},
    };
    return kinds;
}

const WorkloadKind* find_kind(std::span<const WorkloadKind> kinds, base::JsonView object) {
    const std::string_view kind = object["kind"].string_or("");
    const std::string_view group = api_group(object["apiVersion"].string_or(""));
    const auto found = std::ranges::find_if(kinds, [&](const WorkloadKind& entry) {
        return entry.kind == kind && entry.api_group == group;
    });
    return found == kinds.end() ? nullptr : &*found;
}

const WorkloadKind* find_kind(base::JsonView object, const Settings& settings) {
    const WorkloadKind* own = find_kind(std::span(settings.workloads), object);
    return own != nullptr ? own : find_kind(builtin_workloads(), object);
}

/// Follows a path; `*` stands for every element of an array or member of an object.
void expand(base::JsonView place, const kube::PointerPath& done, std::string_view rest,
            std::vector<std::string>& found) {
    if (!place.is_object() && !place.is_array()) return;
    if (rest.empty()) {
        if (place.is_object()) found.push_back(done.text());
        return;
    }
    rest.remove_prefix(1);
    const auto slash = rest.find('/');
    const std::string_view token = rest.substr(0, slash);
    rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
    if (token != "*") {
        const kube::PointerPath next(done.text() + "/" + std::string(token));
        expand(place.find("/" + std::string(token)), next, rest, found);
    } else if (place.is_array()) {
        for (std::size_t index = 0; index < place.size(); ++index) {
            expand(place.at(index), done / index, rest, found);
        }
    } else {
        for (const auto& [key, value] : place.members())
            expand(value, done / key, rest, found);
    }
}

}  // namespace

std::span<const WorkloadKind> builtin_workloads() {
    return table();
}

std::vector<std::string> pod_template_paths(base::JsonView object, const Settings& settings) {
    std::vector<std::string> found;
    const WorkloadKind* kind = find_kind(object, settings);
    if (kind == nullptr) return found;
    for (const std::string& path : kind->pod_template_paths) {
        expand(object, kube::PointerPath(), path, found);
    }
    return found;
}

bool is_workload(base::JsonView object, const Settings& settings) {
    return find_kind(object, settings) != nullptr;
}

bool has_no_place_for_claims(base::JsonView object) {
    const std::string_view kind = object["kind"].string_or("");
    const std::string_view group = api_group(object["apiVersion"].string_or(""));
    // Argo's templates have no pod specification; Knative refuses resources.claims in one; the CRD
    // of Kubeflow's notebooks drops spec.resourceClaims.
    return group == "argoproj.io" || group == "serving.knative.dev" ||
           (group == "kubeflow.org" && kind == "Notebook");
}

std::string_view inherited_scheduler(base::JsonView object) {
    if (api_group(object["apiVersion"].string_or("")) != "batch.volcano.sh") return {};
    const bool cron = object["kind"].string_or("") == "CronJob";
    const base::JsonView job = cron ? object["spec"]["jobTemplate"] : object;
    const std::string_view named = job["spec"]["schedulerName"].string_or("");
    return named.empty() ? "volcano" : named;
}

std::string_view api_group(std::string_view api_version) {
    const auto slash = api_version.find('/');
    return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

}  // namespace drawbridge::translate
