#pragma once
// What is asked of an API server to find out whether it keeps every field that our templates need,
// and how its answers are read (design.md decision 6).

#include "base/json.hpp"
#include "kube/claim_model.hpp"
#include "translate/settings.hpp"

#include <optional>
#include <string>

namespace drawbridge::translate {

/// The minor of an answer to GET /version (`36`, `36+`); `nullopt` where it is not Kubernetes 1.x.
[[nodiscard]] std::optional<int> read_minor(base::JsonView version);

/// The claim that is tried: it has a field of each gate that our templates depend on.
[[nodiscard]] kube::ClaimSpec trial_spec(const Target& target);
/// A ResourceClaimTemplate with a generated name around a claim, as JSON, for a dry run.
[[nodiscard]] std::string trial_json(const kube::ClaimSpec& spec);
/// The names of what a server dropped of `asked`; empty: it kept everything.
[[nodiscard]] std::string dropped_fields(const kube::ClaimSpec& asked, base::JsonView devices);

}  // namespace drawbridge::translate
