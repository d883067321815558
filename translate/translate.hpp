#pragma once
// The heart: a pod and what is known of the cluster in, a verdict with templates, patch and
// diagnostics out.

#include "base/json.hpp"
#include "kube/claim_model.hpp"
#include "kube/json_patch.hpp"
#include "translate/diagnostic.hpp"
#include "translate/settings.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// In the order of weight: of several pods in one object the last counts.
enum class Verdict { leave, translate, deny };
[[nodiscard]] std::string_view name(Verdict verdict);

enum class Operation { create, update };

/// Whether the memory sizes of the fleet can be told (design.md decision 5).
enum class SizesState { not_listed, listed };

/// Whether this API server keeps what our templates need (design.md decision 6).
enum class Features { complete, gate_off, too_old };

/// What the core has to know of the cluster. A snapshot; the caller sees to it that it is current.
struct Cluster {
    int minor = 36;  ///< of the oldest API server: >= 36 `count: N`, 35 N requests, below: too old
    Features features = Features::complete;
    SizesState sizes_state = SizesState::listed;
    std::vector<std::int64_t> memory_sizes;  ///< bytes, ascending; settings win over them
};

/// A pod as it came. `pod` and `old_pod` are objects with `metadata` and `spec` (a pod template
/// serves as well).
struct PodReview {
    base::JsonView pod;
    base::JsonView old_pod;  ///< missing on create
    Operation operation = Operation::create;
    std::map<std::string, std::string> namespace_labels = {};  ///< as far as the caller knows them
    std::string_view name_space = {};                          ///< empty: not known
    /// What a pod template without a scheduler gets from the object it is in (Volcano Job).
    std::string_view inherited_scheduler = {};
};

/// The answer to one pod.
struct Translation {
    Verdict verdict = Verdict::leave;
    std::vector<kube::ClaimTemplate>
        templates;            ///< needed in the namespace, each once, named by content
    kube::JsonPatch patch;    ///< relative to the pod; empty unless the verdict is `translate`
    Diagnostics diagnostics;  ///< all of them, worst first, else in pod order

    /// Templates of ours that the pod names already: they must exist, or be made again from
    /// `restorable`, or the pod is denied (`template-missing`). Only where the verdict is not
    /// `deny`.
    std::vector<std::string> referenced_templates;
    std::vector<kube::ClaimTemplate>
        restorable;  ///< from `drawbridge.dev/original`, if the name comes out the same

    /// A percentage needs the memory sizes and they have not been listed yet: no answer now, the
    /// caller tries later.
    bool sizes_needed = false;
};

/// Translates one pod. Pure: the same input gives the same answer, on the server and on the command
/// line.
[[nodiscard]] Translation translate_pod(const PodReview& review, const Settings& settings,
                                        const Cluster& cluster);

/// The diagnostic for a referenced template that does not exist and cannot be restored.
[[nodiscard]] Diagnostic missing_template(std::string_view name);

/// The diagnostic for a template that is needed and exists with other content.
[[nodiscard]] Diagnostic conflicting_template(std::string_view name);

}  // namespace drawbridge::translate
