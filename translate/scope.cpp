#include "translate/scope.hpp"

#include "translate/build_template.hpp"
#include "translate/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace drawbridge::translate {

namespace {

/// A label of the pod's namespace. The one that holds the name is set by every API server.
std::optional<std::string_view> namespace_label(const PodReview& review, const std::string& label) {
    if (label == "kubernetes.io/metadata.name" && !review.name_space.empty()) {
        return review.name_space;
    }
    const auto found = review.namespace_labels.find(label);
    if (found == review.namespace_labels.end()) return std::nullopt;
    return found->second;
}

/// Modes of a namespace (design.md decision 11) in which its pods are not changed. The webhook's
/// configuration keeps them away from the server; a file may hold the namespace with its label.
bool is_off(const PodReview& review, Subject& subject) {
    constexpr const char* label = "drawbridge.dev/mode";
    const auto mode = namespace_label(review, label);
    if (mode != "off" && mode != "audit") return false;
    subject = {kube::PointerPath() / "metadata", {}, label, std::string(*mode)};
    return true;
}

bool opted_out(const PodReview& review, const Settings& settings, Subject& subject) {
    if (is_off(review, subject)) return true;
    for (const auto& [label, value] : settings.policy.opt_out_labels) {
        const bool by_pod = review.pod["metadata"]["labels"][label].as_string() == value;
        if (!by_pod && namespace_label(review, label) != value) continue;
        subject = {kube::PointerPath() / "metadata", {}, label, value};
        if (by_pod) subject.path = subject.path / "labels" / label;
        return true;
    }
    return false;
}

bool is_foreign(std::string_view scheduler, const Policy& policy) {
    if (scheduler.empty() || scheduler == "default-scheduler") return false;
    if (scheduler == policy.scheduler || scheduler == policy.legacy_scheduler) return false;
    return std::ranges::find(policy.capable_schedulers, scheduler) ==
           policy.capable_schedulers.end();
}

}  // namespace

std::string_view scheduler_of(const PodReview& review) {
    const std::string_view own = review.pod["spec"]["schedulerName"].string_or("");
    return own.empty() ? review.inherited_scheduler : own;
}

Scope scope_of(const PodReview& review, const Settings& settings, bool asks,
               Diagnostics& diagnostics) {
    const base::JsonView pod = review.pod;
    if (!annotations_of(pod)["kubernetes.io/config.mirror"].is_missing()) return Scope::theirs;
    if (Subject subject; opted_out(review, settings, subject)) {
        if (asks) {
            std::string message = fmt::format("label {}: {} keeps the webhook away from this pod",
                                              subject.resource, subject.value);
            report(diagnostics, Code::opted_out, std::move(subject), std::move(message));
        }
        return Scope::theirs;
    }
    const std::string_view scheduler = scheduler_of(review);
    if (!is_foreign(scheduler, settings.policy)) return Scope::ours;
    if (asks) {
        report(diagnostics, Code::foreign_scheduler,
               {kube::PointerPath() / "spec" / "schedulerName",
                {},
                "spec.schedulerName",
                std::string(scheduler)},
               fmt::format("spec.schedulerName is {}, which is not known to handle device claims; "
                           "the pod is left alone",
                           scheduler));
    }
    return Scope::theirs;
}

std::vector<OwnEntry> own_entries(base::JsonView pod) {
    std::vector<OwnEntry> found;
    const base::JsonView entries = pod["spec"]["resourceClaims"];
    for (std::size_t index = 0; index < entries.size(); ++index) {
        const std::string_view name = entries.at(index)["resourceClaimTemplateName"].string_or("");
        if (is_own_template(name)) found.push_back({entries.at(index)["name"].string_or(""), name});
    }
    std::ranges::stable_sort(found, {}, &OwnEntry::name);
    return found;
}

const OwnEntry* own_entry_of(const ContainerView& container, const std::vector<OwnEntry>& entries) {
    const base::JsonView claims = container.json["resources"]["claims"];
    for (std::size_t index = 0; index < claims.size(); ++index) {
        const std::string_view name = claims.at(index)["name"].string_or("");
        const auto found = std::ranges::lower_bound(entries, name, {}, &OwnEntry::name);
        if (found != entries.end() && found->name == name) return &*found;
    }
    return nullptr;
}

}  // namespace drawbridge::translate
