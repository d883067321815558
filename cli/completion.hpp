#pragma once
// Completion scripts for shells, made from the commands that the program has.

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::cli {

/// An option as a shell completes it.
struct OptionWords {
    std::vector<std::string> names;   ///< with their dashes
    bool takes_value = false;         ///< a file, unless `values` says otherwise
    std::vector<std::string> values;  ///< all that it takes; empty: anything
};

/// A command as a shell completes it.
struct CommandWords {
    std::string name;
    std::string description;
    std::vector<OptionWords> options;
    std::vector<std::string> arguments;  ///< words other than options and files
};

/// The script for `bash`, `zsh` or `fish`; `not_found` for another shell.
[[nodiscard]] base::Result<std::string> completion_script(
    std::string_view shell, const std::vector<CommandWords>& commands);

}  // namespace drawbridge::cli
