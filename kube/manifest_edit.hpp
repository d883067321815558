#pragma once
// Changes a YAML document's text at the places that a patch names.

#include "kube/json_patch.hpp"
#include "kube/manifest_tree.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace drawbridge::kube {

/// The text with the patch carried out and without the elements `dropped` of `/items`; nullopt
/// where that is not possible in place. The result is an attempt: anchors, merge keys and odd
/// layouts can give it another meaning, so the caller reads it again and compares.
[[nodiscard]] std::optional<std::string> edit_yaml(std::string_view text, const YamlTree& tree,
                                                   const JsonPatch& patch,
                                                   std::span<const std::size_t> dropped);

}  // namespace drawbridge::kube
