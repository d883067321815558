#pragma once
// Names that look like HAMi's and are none that we act on: what they asked for is not done.

#include "translate/diagnostic.hpp"
#include "translate/pod_view.hpp"
#include "translate/settings.hpp"

namespace drawbridge::translate {

/// Warns of such annotations (of a fork or another release of HAMi, or misspelt), and of such
/// resources in containers that have legacy ones too: they stay, and no node may offer them.
void check_unknown_names(const PodView& pod, const Settings& settings, Diagnostics& diagnostics);

}  // namespace drawbridge::translate
