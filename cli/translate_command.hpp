#pragma once
// `drawbridge translate`: manifests in, templates and changed manifests out, with the answer the
// webhook would give.

#include "cli/notices.hpp"
#include "cli/output.hpp"

#include <string>
#include <vector>

namespace drawbridge::cli {

struct TranslateOptions {
    std::vector<std::string> files;  ///< `-f`
    bool recursive = false;
    std::string name_space;  ///< `-n`
    OutputForm output = OutputForm::yaml;
    NoticeForm notices = NoticeForm::text;
    bool colour = false;
    bool strict = false;
    std::string settings;       ///< file; empty: the built-in profile
    std::string fleet;          ///< file of ResourceSlices; empty: none
    std::string device_memory;  ///< sizes; empty: none. What the settings say wins
    std::string kubernetes_version = "1.36";
};

/// What to print, and the exit status: 0 clean, 1 own failure (nothing on standard output), 2
/// something denied, 3 warnings under `strict`.
struct CommandResult {
    std::string output;
    std::string notices;
    int status = 0;
};

[[nodiscard]] CommandResult run_translate(const TranslateOptions& options);

}  // namespace drawbridge::cli
