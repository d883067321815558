#pragma once
// Whether a pod is ours to look at, and what of ours it already carries.

#include "translate/diagnostic.hpp"
#include "translate/pod_view.hpp"
#include "translate/settings.hpp"
#include "translate/translate.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// Who answers for a pod.
enum class Scope {
    ours,
    theirs,  ///< mirror pod, opted out, foreign scheduler: leave it, the reason is reported
};

/// The scheduler that will place the pod: its own, or that of the object it comes from; empty if
/// neither is named.
[[nodiscard]] std::string_view scheduler_of(const PodReview& review);

/// Decides by labels of pod and namespace, scheduler name and the mirror annotation. The reason is
/// only worth a note where the pod asks for something (`asks`).
[[nodiscard]] Scope scope_of(const PodReview& review, const Settings& settings, bool asks,
                             Diagnostics& diagnostics);

/// An entry of `spec.resourceClaims` that names a template of ours.
struct OwnEntry {
    std::string_view name;
    std::string_view claim_template;
};

[[nodiscard]] std::vector<OwnEntry> own_entries(base::JsonView pod);

/// The entry of ours that a container references; nullptr if none.
[[nodiscard]] const OwnEntry* own_entry_of(const ContainerView& container,
                                           const std::vector<OwnEntry>& entries);

}  // namespace drawbridge::translate
