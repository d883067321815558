#include "translate/scope.hpp"

#include "translate/build_template.hpp"
#include "translate/notes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::translate {

namespace {

bool opted_out(base::JsonView pod, const Settings& settings,
               const std::map<std::string, std::string>& namespace_labels, Subject& subject) {
    for (const auto& [label, value] : settings.policy.opt_out_labels) {
        const auto own = pod["metadata"]["labels"][label].as_string();
        const auto outer = namespace_labels.find(label);
        const bool by_pod = own && *own == value;
        if (!by_pod && (outer == namespace_labels.end() || outer->second != value)) continue;
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

Scope scope_of(base::JsonView pod, const Settings& settings,
               const std::map<std::string, std::string>& namespace_labels, bool asks,
               Diagnostics& diagnostics) {
    if (!annotations_of(pod)["kubernetes.io/config.mirror"].is_missing()) return Scope::theirs;
    if (Subject subject; opted_out(pod, settings, namespace_labels, subject)) {
        if (asks) {
            std::string message = fmt::format("label {}: {} keeps the webhook away from this pod",
                                              subject.resource, subject.value);
            report(diagnostics, Code::opted_out, std::move(subject), std::move(message));
        }
        return Scope::theirs;
    }
    const std::string_view scheduler = pod["spec"]["schedulerName"].string_or("");
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
    return found;
}

const OwnEntry* own_entry_of(const ContainerView& container, const std::vector<OwnEntry>& entries) {
    const base::JsonView claims = container.json["resources"]["claims"];
    for (std::size_t index = 0; index < claims.size(); ++index) {
        const std::string_view name = claims.at(index)["name"].string_or("");
        const auto found = std::ranges::find(entries, name, &OwnEntry::name);
        if (found != entries.end()) return &*found;
    }
    return nullptr;
}

}  // namespace drawbridge::translate
