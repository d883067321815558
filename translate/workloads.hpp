#pragma once
// Where the kinds of objects that make pods keep their pod templates.

#include "base/json.hpp"
#include "translate/settings.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// The kinds known without a setting: Kubernetes' own, and operators in wide use.
[[nodiscard]] std::span<const WorkloadKind> builtin_workloads();

/// The pod templates of an object, as JSON pointers in the order of the document; the empty pointer
/// for a pod itself. Nothing where the object's kind is unknown or has no template in it. The
/// settings' list is asked first.
[[nodiscard]] std::vector<std::string> pod_template_paths(base::JsonView object,
                                                          const Settings& settings);

/// Whether the kind is known to hold pod templates.
[[nodiscard]] bool is_workload(base::JsonView object, const Settings& settings);

/// The API group of an `apiVersion`: `apps` of `apps/v1`, nothing of `v1`.
[[nodiscard]] std::string_view api_group(std::string_view api_version);

}  // namespace drawbridge::translate
