#pragma once
// Which containers of a pod share a claim: peak, not sum (legacy-requests.md R16, design.md "init
// containers").

#include "translate/claim_shape.hpp"
#include "translate/pod_view.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace drawbridge::translate {

/// One claim and the containers it serves.
struct ClaimAssignment {
    ClaimShape shape;
    std::size_t owner = 0;                ///< the container that gives the entry its name
    std::vector<std::size_t> containers;  ///< indices into the pod's containers, ascending
};

/// Every main container and sidecar has its own claim. A plain init container, which runs while no
/// other of its kind and no main container does, shares the claim of the main container that it
/// makes grow least; else one of another init container; else it has its own. `shapes` has one
/// entry a container, none where it needs no device; `sizes` are the fleet's in MiB. The result is
/// in the order of the owners.
[[nodiscard]] std::vector<ClaimAssignment> assign_claims(
    const std::vector<ContainerView>& containers,
    const std::vector<std::optional<ClaimShape>>& shapes, const std::vector<std::int64_t>& sizes);

}  // namespace drawbridge::translate
