#pragma once
// The annotation `drawbridge.dev/original`: what a translated pod asked for before, for people, for
// re-applied manifests and for the repair of a lost template (design.md decision 11 and "Details
// settled").

#include "base/json.hpp"
#include "translate/legacy_request.hpp"
#include "translate/pod_view.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

inline constexpr std::string_view original_annotation = "drawbridge.dev/original";

/// The annotation's text for the legacy entries of a pod; `entries` has one element a container.
/// What an `earlier` annotation says of other containers is kept. An empty `scheduler` was not
/// replaced.
[[nodiscard]] std::string write_original(const PodView& pod,
                                         const std::vector<LegacyEntries>& entries,
                                         std::string_view scheduler, base::JsonView earlier);

/// The annotation of a pod, parsed; nothing where it is missing or not of version 1.
[[nodiscard]] std::optional<base::JsonDocument> read_original(base::JsonView pod);

/// Whether a container asks for the same figures as the annotation has for it, compared as numbers.
[[nodiscard]] bool same_as_original(const ContainerView& container, const LegacyEntries& entries,
                                    base::JsonView original);

/// A translated pod as it was before as far as its GPU request goes: its containers with the
/// resources that the annotation has for them. A pod to be read by `read_pod`, as JSON text.
[[nodiscard]] std::string restore_request(const PodView& pod, base::JsonView original);

}  // namespace drawbridge::translate
