#pragma once
// What a site has configured in HAMi's own files.

#include "base/json.hpp"
#include "translate/settings.hpp"
#include "translate/settings_problems.hpp"

#include <string_view>

namespace drawbridge::translate {

/// Takes over the `nvidia` block of HAMi's device-config.yaml: names, defaults, memory factor, and
/// what its webhook adds to pods. Unknown keys are of no concern here, since HAMi adds some with
/// every release; so are the blocks of other vendors and what nodes do (splitting, scaling, MIG
/// geometries).
void apply_hami_device_config(base::JsonView document, std::string_view place, Settings& settings,
                              Problems& problems);

/// Takes over the opt-outs of HAMi's MutatingWebhookConfiguration: every `NotIn` of its namespace
/// and object selectors. Any other condition is a problem, since pods that HAMi leaves alone would
/// be translated without it.
void apply_hami_webhook(base::JsonView document, std::string_view place, Settings& settings,
                        Problems& problems);

}  // namespace drawbridge::translate
