#pragma once
// Where the documents of a YAML file begin and end.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::kube {

/// The part of a file between two markers (`---`, `...`).
struct YamlSection {
    std::string comments;   ///< that stand before its `---` and behind the document before it
    std::string_view body;  ///< without the marker; what stands on the marker's line is in it
    std::size_t line = 1;   ///< of the body's start
};

/// Splits YAML at its document markers: no document can hold one at the start of a line, so no
/// parser is needed for it. `%` directives are left out.
[[nodiscard]] std::vector<YamlSection> split_yaml(std::string_view text);

}  // namespace drawbridge::kube
