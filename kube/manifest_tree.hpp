#pragma once
// A YAML document as a tree that knows the place of each of its parts in the text.

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::kube {

using YamlIndex = std::uint32_t;

enum class YamlKind : std::uint8_t { scalar, sequence, mapping, alias };
enum class YamlStyle : std::uint8_t { plain, quoted, block_text, block, flow };

/// One part of a document. Offsets are bytes in its text.
struct YamlNode {
    YamlKind kind = YamlKind::scalar;
    YamlStyle style = YamlStyle::plain;
    YamlIndex parent = 0;             ///< the root is its own parent
    YamlIndex target = 0;             ///< of an alias
    std::size_t start = 0;            ///< anchor and tag included
    std::size_t end = 0;              ///< behind the last byte that belongs to it
    std::size_t line = 0;             ///< of the start, from 0
    std::size_t column = 0;           ///< of the start, in characters, from 0
    std::string tag;                  ///< empty: none
    std::string text;                 ///< of a scalar
    std::vector<YamlIndex> children;  ///< elements; of a mapping keys and values by turns
};

/// Nodes in the order of the text, the root first; empty for a document of comments only.
struct YamlTree {
    std::vector<YamlNode> nodes;

    [[nodiscard]] const YamlNode& operator[](YamlIndex index) const { return nodes[index]; }
};

/// Reads one YAML document (nothing may follow it). `path` of an error is `LINE:COLUMN`, counted
/// from 1 and `first_line`.
[[nodiscard]] base::Result<YamlTree> read_yaml(std::string_view text,
                                               const base::JsonLimits& limits,
                                               std::size_t first_line = 1);

/// The document's value as JSON, scalars resolved and merge keys carried out as Kubernetes' reader
/// does. Refused: duplicate keys, keys that are no scalars, what JSON cannot hold, and aliases that
/// expand to more than `limits.max_bytes`.
[[nodiscard]] base::Result<std::string> yaml_to_json(const YamlTree& tree,
                                                     const base::JsonLimits& limits,
                                                     std::size_t first_line = 1);

/// The member name that a key stands for.
[[nodiscard]] base::Result<std::string> yaml_key(const YamlTree& tree, YamlIndex key);

}  // namespace drawbridge::kube
