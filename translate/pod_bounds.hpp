#pragma once
// How much one pod may ask for. A review comes before any validation, so a document of a few MiB
// can hold tens of thousands of containers and entries, and each shape costs a write to the API
// server.

#include "translate/assign_claims.hpp"
#include "translate/build_patch.hpp"
#include "translate/diagnostic.hpp"
#include "translate/scope.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace drawbridge::translate {

/// Containers that ask for GPUs; no node could run as many.
inline constexpr std::size_t max_gpu_containers = 1000;
/// Different templates of a pod, those that it names already and those that it needs alike.
inline constexpr std::size_t max_templates = 64;

/// Whether the pod asks for GPUs in no more containers, and names no more templates of ours; if
/// not, reports it.
[[nodiscard]] bool within_bounds(const std::vector<ContainerChange>& containers,
                                 const std::vector<OwnEntry>& entries, Diagnostics& diagnostics);

/// Whether an API server takes the expressions that the pod's lists of devices come to; if not,
/// reports it.
[[nodiscard]] bool selectors_fit(const std::vector<std::string>& selectors,
                                 Diagnostics& diagnostics);

/// Whether the claims have no more different shapes than a pod may have templates; if not, reports
/// it.
[[nodiscard]] bool within_bounds(const std::vector<ClaimAssignment>& claims,
                                 Diagnostics& diagnostics);

}  // namespace drawbridge::translate
