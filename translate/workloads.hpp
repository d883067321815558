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

/// Whether the API of the kind keeps no device claims in the pods it describes, so that only the
/// webhook can translate those. The settings' list wins: it may name such a kind for a newer API.
[[nodiscard]] bool has_no_place_for_claims(base::JsonView object);

/// The scheduler that an object gives to those of its pod templates that name none; empty if it
/// leaves them to the default. A Volcano Job does, and is itself given `volcano` where it names
/// none.
[[nodiscard]] std::string_view inherited_scheduler(base::JsonView object);

/// The API group of an `apiVersion`: `apps` of `apps/v1`, nothing of `v1`.
[[nodiscard]] std::string_view api_group(std::string_view api_version);

}  // namespace drawbridge::translate
