#pragma once
// The changes to a pod, each at its own place in the document as it came (design.md decision 3).

#include "kube/json_patch.hpp"
#include "translate/legacy_request.hpp"
#include "translate/pod_view.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_set>
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

/// Names for claim entries that no entry of the pod has and that were not given before.
class EntryNames {
public:
    explicit EntryNames(base::JsonView pod);

    /// `wanted`, or `wanted-2`, ... on collision.
    [[nodiscard]] std::string take(const std::string& wanted);

private:
    std::unordered_set<std::string> taken_;
};

}  // namespace drawbridge::translate
