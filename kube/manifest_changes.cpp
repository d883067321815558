#include "kube/manifest_changes.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

namespace drawbridge::kube {
namespace {

std::string unescape(std::string_view token) {
    std::string out;
    for (std::size_t i = 0; i < token.size(); ++i) {
        const bool is_escape = token[i] == '~' && i + 1 < token.size();
        if (is_escape) {
            out += token[++i] == '1' ? '/' : '~';
        } else {
            out += token[i];
        }
    }
    return out;
}

/// The item of a map or list that a reference token names.
std::optional<std::size_t> find_item(const YamlTree& tree, const YamlNode& node,
                                     const std::string& token) {
    if (node.kind == YamlKind::mapping) {
        for (std::size_t i = 0; 2 * i < node.children.size(); ++i) {
            const auto name = yaml_key(tree, node.children[2 * i]);
            if (name && *name == token) return i;
        }
        return std::nullopt;
    }
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
    const bool is_index = error == std::errc() && end == token.data() + token.size();
    if (node.kind != YamlKind::sequence || !is_index || index >= node.children.size()) {
        return std::nullopt;
    }
    return index;
}

YamlIndex child_of(const YamlNode& node, std::size_t item) {
    return node.children[node.kind == YamlKind::mapping ? 2 * item + 1 : item];
}

struct Place {
    YamlIndex parent = 0;
    std::string token;
};

/// The map or list that holds the place of a pointer, and the name of the place in it.
std::optional<Place> find_parent(const YamlTree& tree, std::string_view pointer) {
    if (tree.nodes.empty() || !pointer.starts_with('/')) return std::nullopt;
    YamlIndex at = 0;
    while (true) {
        pointer.remove_prefix(1);
        std::string token = unescape(pointer.substr(0, pointer.find('/')));
        pointer.remove_prefix(std::min(pointer.size(), pointer.find('/')));
        if (pointer.empty()) return Place{at, std::move(token)};
        const auto item = find_item(tree, tree[at], token);
        if (!item) return std::nullopt;
        at = child_of(tree[at], *item);
    }
}

bool add_operation(const YamlTree& tree, const PatchOperation& operation, YamlChanges& changes) {
    const auto place = find_parent(tree, operation.path);
    if (!place) return false;
    const YamlNode& parent = tree[place->parent];
    const auto item = find_item(tree, parent, place->token);
    ItemChanges& items = changes.parents[place->parent];
    if (operation.kind == PatchKind::remove) return item && items.removed.insert(*item).second;

    const base::JsonView value = keep_value(changes, operation.value);
    if (value.is_missing()) return false;
    const bool is_list = parent.kind == YamlKind::sequence;
    if (item && !(is_list && operation.kind == PatchKind::add)) {
        return items.replaced.emplace(*item, value).second;
    }
    if (operation.kind != PatchKind::add || (is_list && place->token != "-")) return false;
    items.added.push_back({place->token, operation.value, value});
    return is_list || parent.kind == YamlKind::mapping;
}

}  // namespace

base::JsonView keep_value(YamlChanges& changes, const std::string& json) {
    auto document = base::parse_json(json, {std::numeric_limits<std::size_t>::max(), 128});
    if (!document) return {};
    return changes.values.emplace_back(std::move(*document)).root();
}

std::optional<YamlChanges> find_changes(const YamlTree& tree, const JsonPatch& patch,
                                        std::span<const std::size_t> dropped) {
    YamlChanges changes;
    for (const PatchOperation& operation : patch.operations()) {
        if (!add_operation(tree, operation, changes)) return std::nullopt;
    }
    if (dropped.empty()) return changes;
    const auto items = find_parent(tree, "/items/-");
    if (!items || tree[items->parent].kind != YamlKind::sequence) return std::nullopt;
    for (const std::size_t index : dropped) {
        if (index >= tree[items->parent].children.size()) return std::nullopt;
        changes.parents[items->parent].removed.insert(index);
    }
    return changes;
}

}  // namespace drawbridge::kube
