#pragma once
// The files that a command reads: names given, folders walked, standard input.

#include "base/result.hpp"
#include "translate/settings.hpp"

#include <string>
#include <vector>

namespace drawbridge::cli {

struct InputFile {
    std::string name;  ///< as given, or the folder's name and the file's; `-` for standard input
    std::string text;
};

/// Reads files, folders (their *.yaml, *.yml and *.json, in the order of the names; below them only
/// if `recursive`) and
/// `-`. Fails at the first that cannot be read, with its name.
[[nodiscard]] base::Result<std::vector<InputFile>> read_inputs(
    const std::vector<std::string>& places, bool recursive);

/// One file as a whole, at most 64 MiB.
[[nodiscard]] base::Result<std::string> read_text(const std::string& name);

/// A file of settings, or HAMi's; those of the built-in profile where `name` is empty. An error's
/// place begins with the file's name, or each line of its message does.
[[nodiscard]] base::Result<translate::Settings> read_settings(const std::string& name);

/// An error in a file: its place is `FILE`, or `FILE:LINE:COLUMN` where it had one.
[[nodiscard]] base::Error at_file(base::Error error, const std::string& file);

}  // namespace drawbridge::cli
