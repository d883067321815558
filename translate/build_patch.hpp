#pragma once
// The changes to a pod, each at its own place in the document as it came (design.md decision 3).

#include "kube/json_patch.hpp"
#include "translate/legacy_request.hpp"
#include "translate/pod_view.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::translate {

/// What changes in one container.
struct ContainerChange {
    LegacyEntries strip;
    std::string claim;  ///< name of the claim entry to reference; empty: none
    std::vector<std::pair<std::string, std::string>> environment;  ///< to set, by name
};

/// What changes in a pod.
struct PodChange {
    std::vector<ContainerChange> containers;  ///< one a container of the pod
    std::vector<std::pair<std::string, std::string>>
        claims;                 ///< entry name -> template name, to append
    std::string scheduler;      ///< empty: stays
    std::string runtime_class;  ///< empty: stays
    std::string original;       ///< text of our annotation; empty: none is written
};

/// The patch that makes these changes; empty where nothing changes.
[[nodiscard]] kube::JsonPatch build_patch(const PodView& pod, const PodChange& change);

/// Removes legacy names from a container's limits and requests, and the map where nothing else is
/// in it.
void strip_legacy(kube::JsonPatch& patch, const ContainerView& container,
                  const LegacyEntries& entries);

/// A name for a claim entry that no entry of the pod and none of `taken` has: `wanted`, `wanted-2`,
/// ...
[[nodiscard]] std::string free_entry_name(base::JsonView pod, const std::vector<std::string>& taken,
                                          const std::string& wanted);

}  // namespace drawbridge::translate
