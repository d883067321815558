#pragma once
// Tables for people.

#include "base/json.hpp"

#include <string>
#include <vector>

namespace drawbridge::agent {

using TableRow = std::vector<std::string>;

/// Columns two spaces apart; all rows have as many cells as the first, of which there is one.
[[nodiscard]] std::string lay_out(const std::vector<TableRow>& rows);

/// The text, or `-` where it is empty or none.
[[nodiscard]] std::string or_dash(base::JsonView text);

}  // namespace drawbridge::agent
