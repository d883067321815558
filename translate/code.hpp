#pragma once
// The closed set of things a translation can say, each with a stable code and its explanation.

#include <optional>
#include <span>
#include <string_view>

namespace drawbridge::translate {

enum class Severity { note, warning, denied };

/// What an API server is told of a denial: a wrong value (422 Invalid) or a rule of the site (403
/// Forbidden).
enum class Reason { invalid, forbidden };

enum class Code {
#define DRAWBRIDGE_CODE(id, ...) id,
#include "translate/codes.inc"
#undef DRAWBRIDGE_CODE
};

/// Everything a person can ask of a code.
struct CodeInfo {
    Code code;
    std::string_view name;     ///< as in logs, metrics, notices: `memory-unit`
    Severity severity;         ///< as long as no setting says otherwise
    Reason reason;             ///< if it denies
    std::string_view meaning;  ///< one or two sentences
    std::string_view example;  ///< a manifest line or lines that lead to it
    std::string_view fix;
};

/// All codes, in the order of their names.
[[nodiscard]] std::span<const CodeInfo> all_codes();
[[nodiscard]] const CodeInfo& info(Code code);
[[nodiscard]] std::string_view name(Code code);
[[nodiscard]] std::string_view name(Severity severity);
[[nodiscard]] std::optional<Code> code_of(std::string_view name);

}  // namespace drawbridge::translate
