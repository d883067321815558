#pragma once
// JSON values as YAML text.

#include "base/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace drawbridge::kube {

/// How block-style YAML is laid out.
struct YamlLayout {
    std::size_t column = 0;           ///< of the lines behind the first one
    std::size_t sequence_indent = 0;  ///< of the dashes of a list behind the key it belongs to
    std::string_view line_break = "\n";
};

/// A value in block style, without a line break at the end. The first line is not indented: the
/// caller has put the cursor to `layout.column`.
void append_yaml_block(std::string& out, base::JsonView value, const YamlLayout& layout);

/// `key: value` in block style, as `append_yaml_block`.
void append_yaml_member(std::string& out, std::string_view key, base::JsonView value,
                        const YamlLayout& layout);

/// A value on one line, in flow style.
void append_yaml_flow(std::string& out, base::JsonView value);

/// A text as a scalar on one line that is this text inside flow style too.
void append_yaml_quoted(std::string& out, std::string_view text);

/// Whether a value has lines below its key in block style.
[[nodiscard]] bool is_yaml_block(base::JsonView value);

}  // namespace drawbridge::kube
