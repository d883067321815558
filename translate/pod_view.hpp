#pragma once
// A pod as the rules see it: its containers with kind and place, nothing decoded that is not asked
// for.

#include "base/json.hpp"
#include "kube/json_patch.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// When a container runs: `main` all the time, `sidecar` (an init container with `restartPolicy:
/// Always`) beside it, `init` before it, alone, and ends.
enum class ContainerKind { init, sidecar, main };

struct ContainerView {
    std::string name;
    ContainerKind kind = ContainerKind::main;
    std::size_t index = 0;   ///< in its own list
    kube::PointerPath path;  ///< of the container in the pod
    base::JsonView json;
};

struct PodView {
    base::JsonView pod;
    std::vector<ContainerView> containers;  ///< init containers and sidecars first, as in the pod
};

/// Reads the two lists of containers; entries that are no objects are left to the API server.
[[nodiscard]] PodView read_pod(base::JsonView pod);

/// `metadata.annotations` of a pod, empty where there are none.
[[nodiscard]] base::JsonView annotations_of(base::JsonView pod);

}  // namespace drawbridge::translate
