#pragma once
// What a patch means for a YAML document: for each map or list what goes, what comes, what changes.

#include "base/json.hpp"
#include "kube/json_patch.hpp"
#include "kube/manifest_tree.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace drawbridge::kube {

struct NewItem {
    std::string key;  ///< of a member
    std::string json;
    base::JsonView value;
};

/// What happens to one map or list. Items are counted from 0.
struct ItemChanges {
    std::set<std::size_t> removed;
    std::map<std::size_t, base::JsonView> replaced;
    std::vector<NewItem> added;  ///< behind the last one
};

struct YamlChanges {
    std::map<YamlIndex, ItemChanges> parents;
    std::deque<base::JsonDocument> values;  ///< own what the changes show
};

/// Finds the places of a patch and of the elements of `/items` to be dropped; nullopt where one
/// lies behind an alias or does not exist.
[[nodiscard]] std::optional<YamlChanges> find_changes(const YamlTree& tree, const JsonPatch& patch,
                                                      std::span<const std::size_t> dropped);

/// Keeps a value for as long as the changes are there; a missing view if it is no JSON.
[[nodiscard]] base::JsonView keep_value(YamlChanges& changes, const std::string& json);

}  // namespace drawbridge::kube
