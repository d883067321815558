#pragma once
// `drawbridge webhook`: the MutatingWebhookConfiguration that belongs to the settings.

#include "base/result.hpp"

#include <string>

namespace drawbridge::cli {

struct WebhookOptions {
    std::string settings = {};   ///< file; empty: the built-in profile
    std::string ca_bundle = {};  ///< PEM file; empty: the configuration has no caBundle yet
    std::string name_space = "drawbridge-system";
    std::string service = "drawbridge-webhook";
};

/// The configuration as YAML. `invalid_input` and `not_found` name the file that is at fault.
[[nodiscard]] base::Result<std::string> webhook_configuration(const WebhookOptions& options);

}  // namespace drawbridge::cli
