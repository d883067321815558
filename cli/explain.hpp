#pragma once
// `drawbridge explain`: what a code means, how one comes to it, and the way out.

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace drawbridge::cli {

/// One line a code.
[[nodiscard]] std::string list_codes();
/// Meaning, example and fix of a code, in letters of any case; `not_found` names the nearest codes.
[[nodiscard]] base::Result<std::string> explain_code(std::string_view asked);
/// All codes as docs/codes.md has them.
[[nodiscard]] std::string codes_markdown();

}  // namespace drawbridge::cli
