#pragma once
// A pod that exists already: what a re-applied old manifest would put back is taken away again.

#include "translate/translate.hpp"

namespace drawbridge::translate {

/// `translate_pod` for an update: only where the old pod carries a claim entry of ours. Legacy
/// names with the figures of the original request are stripped again, scheduler name and
/// environment of ours restored from the old pod; other figures stay, so that the API server
/// refuses the change (design.md "UPDATE").
[[nodiscard]] Translation translate_update(const PodReview& review, const Settings& settings);

}  // namespace drawbridge::translate
