#include "translate/translate_update.hpp"

#include "translate/build_patch.hpp"
#include "translate/environment.hpp"
#include "translate/notes.hpp"
#include "translate/original.hpp"
#include "translate/scope.hpp"

#include <fmt/format.h>

namespace drawbridge::translate {

namespace {

const ContainerView* old_container(const PodView& old, const ContainerView& container) {
    for (const ContainerView& other : old.containers) {
        if (other.name == container.name && other.kind == container.kind) return &other;
    }
    return nullptr;
}

/// The entries of an environment that are not ours, in order.
std::vector<base::JsonView> foreign_variables(base::JsonView environment) {
    std::vector<base::JsonView> found;
    for (std::size_t index = 0; index < environment.size(); ++index) {
        const base::JsonView entry = environment.at(index);
        if (!is_own_variable(entry["name"].string_or(""))) found.push_back(entry);
    }
    return found;
}

/// The old environment, where the new one differs from it in nothing but our variables.
void restore_environment(kube::JsonPatch& patch, const ContainerView& now,
                         const ContainerView& before) {
    const base::JsonView old_list = before.json["env"];
    const base::JsonView new_list = now.json["env"];
    if (same_value(old_list, new_list)) return;
    const auto old_foreign = foreign_variables(old_list);
    const auto new_foreign = foreign_variables(new_list);
    if (old_foreign.size() != new_foreign.size()) return;
    for (std::size_t index = 0; index < old_foreign.size(); ++index) {
        if (!same_value(old_foreign[index], new_foreign[index])) return;
    }
    if (old_list.is_absent()) {
        patch.remove(now.path / "env");
    } else {
        patch.add(now.path / "env", old_list.to_json());
    }
}

}  // namespace

Translation translate_update(const PodReview& review, const Settings& settings) {
    Translation result;
    if (own_entries(review.old_pod).empty()) return result;
    const auto original = read_original(review.old_pod);
    if (!original) return result;
    const PodView pod = read_pod(review.pod);
    const PodView old = read_pod(review.old_pod);
    const auto names = legacy_names(settings.resources);
    for (const ContainerView& container : pod.containers) {
        const LegacyEntries entries = find_legacy(container.json, names);
        const ContainerView* before = old_container(old, container);
        if (before == nullptr || !find_legacy(before->json, names).empty()) continue;
        if (!entries.empty() && !same_as_original(container, entries, original->root())) {
            report(result.diagnostics, Code::update_changes_request,
                   {container.path / "resources", container.name, "resources", {}},
                   fmt::format("{}: the GPU resources differ from those the pod was made with",
                               quoted_container(container)));
            result.patch = {};
            return result;
        }
        strip_legacy(result.patch, container, entries);
        restore_environment(result.patch, container, *before);
    }
    const base::JsonView scheduler = review.old_pod["spec"]["schedulerName"];
    const bool legacy =
        review.pod["spec"]["schedulerName"].string_or("") == settings.policy.legacy_scheduler;
    if (legacy && !same_value(scheduler, review.pod["spec"]["schedulerName"])) {
        result.patch.add(kube::PointerPath() / "spec" / "schedulerName", scheduler.to_json());
    }
    if (!result.patch.empty()) result.verdict = Verdict::translate;
    return result;
}

}  // namespace drawbridge::translate
