#pragma once
// What stands in a pod beside its request that forbids devices, or that a user should know of.

#include "translate/claim_shape.hpp"
#include "translate/diagnostic.hpp"
#include "translate/pod_view.hpp"
#include "translate/settings.hpp"
#include "translate/translate.hpp"

#include <optional>
#include <vector>

namespace drawbridge::translate {

/// Denies what the API has in another kind where a translation reads it or adds to it: lists of
/// claims and variables, maps of metadata, annotations. An API server sends no such pod, a file may
/// hold one.
void check_kinds(const PodView& pod, const Settings& settings, Diagnostics& diagnostics);

/// Whether the API server keeps what the templates of a pod that asks for devices need; if not,
/// denies the pod, or warns of it where the settings let such pods through. `diagnostics` is what
/// was found so far: of a pod that is let through nothing else is said.
[[nodiscard]] bool check_server(const Cluster& cluster, const Settings& settings,
                                Diagnostics& diagnostics);

/// Denies privileged containers and a preset node name (legacy-requests.md 3, rows 5 and 7) in a
/// pod that gets devices.
void check_isolation(const PodView& pod, const Settings& settings, Diagnostics& diagnostics);

/// Warns of variables that no longer do what they did, in containers with a device (`shapes` has
/// one a container).
void check_environment(const PodView& pod, const std::vector<std::optional<ClaimShape>>& shapes,
                       const Settings& settings, Diagnostics& diagnostics);

/// Notes HAMi's bookkeeping annotations, which come with exported manifests
/// (legacy-requests.md 2.3).
void check_bookkeeping(base::JsonView pod, Diagnostics& diagnostics);

/// Notes ephemeral containers with legacy names: they are left as they are.
void check_ephemeral(base::JsonView pod, const Settings& settings, Diagnostics& diagnostics);

}  // namespace drawbridge::translate
