#pragma once
// What a user wrote wrongly or should know, collected so that one answer names all of it.

#include "translate/code.hpp"

#include <string>
#include <vector>

namespace drawbridge::translate {

struct Diagnostic {
    Severity severity = Severity::note;
    Code code{};
    std::string path;  ///< JSON pointer inside the pod (for the command line: inside the document)
    std::string container;  ///< empty where it is about the pod
    std::string resource;   ///< resource, annotation or field name it is about
    std::string value;      ///< as found; empty where there is none
    std::string message;    ///< what was found and where, a sentence without the fix
    std::string fix;        ///< what would be right; never empty for a denial
};

using Diagnostics = std::vector<Diagnostic>;

/// Whether any of them denies.
[[nodiscard]] bool denies(const Diagnostics& diagnostics);

}  // namespace drawbridge::translate
