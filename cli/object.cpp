#include "cli/object.hpp"

#include "translate/legacy_request.hpp"
#include "translate/notes.hpp"
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

/// The first legacy name in a `limits` or `requests` map anywhere in a document, with its place.
bool find_legacy_name(base::JsonView place, const kube::PointerPath& path,
                      const std::vector<std::string_view>& names, kube::PointerPath& found) {
    if (place.is_array()) {
        for (std::size_t index = 0; index < place.size(); ++index) {
            if (find_legacy_name(place.at(index), path / index, names, found)) return true;
        }
        return false;
    }
    for (const auto& [key, value] : place.members()) {
        if (key == "limits" || key == "requests") {
            for (const std::string_view name : names) {
                if (value[name].is_missing()) continue;
                found = path / key / name;
                return true;
            }
        }
        if (find_legacy_name(value, path / key, names, found)) return true;
    }
    return false;
}

void report_left_alone(base::JsonView object, const Identity& identity,
                       const translate::Settings& settings, translate::Diagnostics& diagnostics) {
    kube::PointerPath path;
    const auto names = translate::legacy_names(settings.resources);
    if (!find_legacy_name(object, {}, names, path)) return;
    const std::string kind =
        identity.kind.empty() ? "a document without kind" : "an object of kind " + identity.kind;
    const bool no_place = translate::has_no_place_for_claims(object);
    translate::report(
        diagnostics, no_place ? Code::claims_not_kept : Code::legacy_in_unknown_kind,
        {path, {}, identity.kind, {}},
        fmt::format("a legacy GPU resource stands in {}, {}", kind,
                    no_place ? "whose API keeps no device claims; its pods are translated when "
                               "they are created"
                             : "which is not known to hold pods"));
}

/// Only the API server knows which fields the definition of a custom resource keeps.
void note_custom_resource(base::JsonView object, translate::Diagnostics& diagnostics) {
    const std::string_view group = translate::api_group(object["apiVersion"].string_or(""));
    if (group.find('.') == std::string_view::npos) return;  // Kubernetes' own
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
    if (answer.verdict == Verdict::translate) note_custom_resource(object, answer.diagnostics);
    std::ranges::stable_sort(answer.diagnostics, std::greater(), &translate::Diagnostic::severity);
    if (answer.verdict == Verdict::deny) answer.deny();
    return answer;
}

}  // namespace drawbridge::cli
