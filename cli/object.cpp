#include "cli/object.hpp"

#include "translate/legacy_request.hpp"
#include "translate/notes.hpp"
#include "translate/placement.hpp"
#include "translate/pod_view.hpp"
#include "translate/workloads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::cli {

namespace {

using translate::Code;
using translate::Verdict;

void add_template(std::vector<kube::ClaimTemplate>& templates, kube::ClaimTemplate made) {
    const auto same = std::ranges::find(templates, made.name, &kube::ClaimTemplate::name);
    if (same == templates.end()) templates.push_back(std::move(made));
}

void add_answer(ObjectAnswer& all, translate::Translation one, const kube::PointerPath& prefix) {
    all.verdict = std::max(all.verdict, one.verdict);
    for (auto& made : one.templates)
        add_template(all.templates, std::move(made));
    for (auto& made : one.restorable)
        add_template(all.restorable, std::move(made));
    for (auto& name : one.referenced_templates)
        all.referenced_templates.push_back({std::move(name), prefix});
    all.patch.append(one.patch.below(prefix));
    for (auto& diagnostic : one.diagnostics) {
        diagnostic.path = prefix.text() + diagnostic.path;
        all.diagnostics.push_back(std::move(diagnostic));
    }
}

/// Looks for legacy names in `limits` and `requests` maps anywhere in a document but in the
/// containers of its pod templates.
struct Search {
    std::vector<std::string_view> names;
    std::vector<std::string> templates;

    /// The first place; empty if there is none.
    [[nodiscard]] std::string find(base::JsonView place, const kube::PointerPath& path,
                                   bool pod = false) const {
        const bool known = std::ranges::find(templates, path.text()) != templates.end();
        if (known && place["spec"].is_object()) return find(place["spec"], path / "spec", true);
        std::string found;
        for (std::size_t index = 0; found.empty() && index < place.size(); ++index)
            found = find(place.at(index), path / index);
        for (const auto& [key, value] : place.members()) {
            if (!found.empty()) break;
            if (pod && key.ends_with("ontainers") && value.is_array()) {  // of all three sorts
                found = find_in_containers(value, path / key);
                continue;
            }
            if (key == "limits" || key == "requests") found = find_name(value, path / key);
            if (found.empty()) found = find(value, path / key);
        }
        return found;
    }

private:
    /// Where a container has it, and not in a map of amounts, which is translated.
    [[nodiscard]] std::string find_in_containers(base::JsonView list,
                                                 const kube::PointerPath& path) const {
        std::string found;
        for (std::size_t index = 0; found.empty() && index < list.size(); ++index) {
            const base::JsonView resources = list.at(index)["resources"];
            for (const char* amounts : {"limits", "requests"}) {
                if (found.empty())
                    found = find_name(list.at(index)[amounts], path / index / amounts);
                const base::JsonView inside = resources[amounts];
                if (found.empty() && !inside.is_object())
                    found = find_member(inside, path / index / "resources" / amounts);
            }
            if (found.empty()) found = find_name(resources, path / index / "resources");
            if (found.empty() && !resources.is_object())
                found = find_member(resources, path / index / "resources");
        }
        return found;
    }

    /// As a member of anything.
    [[nodiscard]] std::string find_member(base::JsonView place,
                                          const kube::PointerPath& path) const {
        std::string found = find_name(place, path);
        for (std::size_t index = 0; found.empty() && index < place.size(); ++index)
            found = find_member(place.at(index), path / index);
        return found;
    }

    [[nodiscard]] std::string find_name(base::JsonView list, const kube::PointerPath& path) const {
        for (const std::string_view name : names) {
            if (!list[name].is_missing()) return (path / name).text();
        }
        return {};
    }
};

void report_left_alone(base::JsonView object, const Identity& identity,
                       const translate::Settings& settings, translate::Diagnostics& diagnostics) {
    const bool known = translate::is_workload(object, settings);
    const Search search{translate::legacy_names(settings.resources),
                        translate::pod_template_paths(object, settings)};
    const std::string path = search.find(object, {});
    if (path.empty()) return;
    const std::string kind =
        identity.kind.empty() ? "a document without kind" : "an object of kind " + identity.kind;
    const bool no_place = !known && translate::has_no_place_for_claims(object);
    const bool in_pod = std::ranges::any_of(search.templates, [&](const std::string& pod) {
        return path.starts_with(pod + "/spec/") && object.find(pod + "/spec").is_object();
    });
    translate::report(
        diagnostics, no_place ? Code::claims_not_kept : Code::legacy_in_unknown_kind,
        {kube::PointerPath(path), {}, identity.kind, {}},
        fmt::format("a legacy GPU resource stands in {}, {}", kind,
                    no_place ? "whose API keeps no device claims; its pods are translated when "
                               "they are created"
                    : in_pod ? "where no container of its pods has it"
                    : known  ? "outside its pod templates as far as they are known"
                             : "which is not known to hold pods"),
        in_pod ? "Move it to the resources of the container that is to have the GPU." : "");
}

/// HAMi sees pods alone: what stands on a Deployment is not on its pods.
void report_misplaced(base::JsonView object, const translate::Settings& settings,
                      translate::Diagnostics& diagnostics) {
    const kube::PointerPath metadata = kube::PointerPath() / "metadata";
    const std::string kind(object["kind"].string_or(""));
    for (const std::string_view name : translate::annotation_names(settings.annotations)) {
        if (translate::annotations_of(object)[name].is_missing()) continue;
        translate::report(
            diagnostics, Code::annotation_ignored,
            {metadata / "annotations" / name, {}, std::string(name), {}},
            fmt::format("annotation {} stands on the {} and not on its pods; it has no effect",
                        name, kind),
            "move it to metadata.annotations of the pod template");
    }
    for (const auto& [label, value] : settings.policy.opt_out_labels) {
        if (object["metadata"]["labels"][label].as_string() != value) continue;
        translate::report(
            diagnostics, Code::annotation_ignored, {metadata / "labels" / label, {}, label, value},
            fmt::format("label {}: {} stands on the {} and not on its pods; it has no effect",
                        label, value, kind),
            "move it to metadata.labels of the pod template");
    }
}

/// Of Kubernetes itself, and not of a custom resource.
bool is_built_in(base::JsonView object) {
    const std::string_view group = translate::api_group(object["apiVersion"].string_or(""));
    return group.find('.') == std::string_view::npos;
}

/// Only the API server knows which fields the definition of a custom resource keeps.
void note_custom_resource(base::JsonView object, translate::Diagnostics& diagnostics) {
    if (is_built_in(object)) return;
    const std::string kind(object["kind"].string_or(""));
    translate::report(
        diagnostics, Code::custom_resource, {{}, {}, kind, {}},
        fmt::format("{} is a custom resource: its definition must know the claims of Kubernetes "
                    "1.31 or later",
                    kind));
}

}  // namespace

void ObjectAnswer::deny() {
    verdict = Verdict::deny;
    patch = {};
    templates.clear();
}

Identity identify(base::JsonView object, const std::string& default_namespace) {
    const base::JsonView metadata = object["metadata"];
    Identity identity;
    identity.kind = object["kind"].string_or("");
    identity.name_space = metadata["namespace"].string_or(default_namespace);
    identity.name = metadata["name"].string_or("");
    if (identity.name.empty()) identity.generate_name = metadata["generateName"].string_or("");
    return identity;
}

ObjectAnswer translate_object(base::JsonView object, const Identity& identity,
                              const TranslateContext& context) {
    ObjectAnswer answer;
    if (!translate::is_workload(object, context.settings)) {
        report_left_alone(object, identity, context.settings, answer.diagnostics);
        return answer;
    }
    const auto labels = context.namespace_labels.find(identity.name_space);
    for (const std::string& path : translate::pod_template_paths(object, context.settings)) {
        translate::PodReview review;
        review.pod = object.find(path);
        if (labels != context.namespace_labels.end()) review.namespace_labels = labels->second;
        review.name_space = identity.name_space;
        review.inherited_scheduler = translate::inherited_scheduler(object);
        add_answer(answer, translate::translate_pod(review, context.settings, context.cluster),
                   kube::PointerPath(path));
    }
    report_left_alone(object, identity, context.settings, answer.diagnostics);
    // The controllers of custom resources may copy theirs; of a pod they are its own.
    if (!answer.templates.empty() && is_built_in(object) && identity.kind != "Pod") {
        report_misplaced(object, context.settings, answer.diagnostics);
    }
    if (answer.verdict == Verdict::translate) note_custom_resource(object, answer.diagnostics);
    std::ranges::stable_sort(answer.diagnostics, std::greater(), &translate::Diagnostic::severity);
    if (answer.verdict == Verdict::deny) answer.deny();
    return answer;
}

}  // namespace drawbridge::cli
