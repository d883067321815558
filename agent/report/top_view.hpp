#pragma once
// What `drawbridge-agent top` shows, made of the JSON text of `/status`.

#include "base/result.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace drawbridge::agent {

/// A line for each GPU and each container with a share: memory used of the limit, processes,
/// launches and denials in a second, and how much of it launches were held back. Texts come from
/// the API server and cannot move the cursor: names of Kubernetes have no such characters.
[[nodiscard]] base::Result<std::string> top_view(const std::string& status);

/// What fits a screen: `rows` lines of `columns` characters. The last one says how many more there
/// are. 0: no bound.
[[nodiscard]] std::string fit_screen(std::string_view text, std::size_t rows, std::size_t columns);

}  // namespace drawbridge::agent
