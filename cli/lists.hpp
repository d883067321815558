#pragma once
// Lists of objects as kubectl prints them: `List`, `PodList` and the like.

#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <string>
#include <string_view>

namespace drawbridge::cli {

/// Whether an object is a list of others.
[[nodiscard]] bool is_list(base::JsonView object);

/// The text of an item as it stands alone: an API server leaves `kind` and `apiVersion` out of the
/// items of a PodList and the like.
[[nodiscard]] std::string whole_item(base::JsonView list, base::JsonView item,
                                     std::string_view text);

/// Writes a document that is a list with lists inside it anew, as one list without them, which is
/// how kubectl reads it; `root` is its JSON and is not to be used afterwards. False where nothing
/// had to be done.
[[nodiscard]] bool flatten(kube::Manifest& manifest, base::JsonView root);

}  // namespace drawbridge::cli
