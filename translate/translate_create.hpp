#pragma once
// A pod that is being created: from its legacy request to claims, templates and the patch.

#include "translate/translate.hpp"

namespace drawbridge::translate {

/// `translate_pod` for a create.
[[nodiscard]] Translation translate_create(const PodReview& review, const Settings& settings,
                                           const Cluster& cluster);

}  // namespace drawbridge::translate
