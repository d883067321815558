#pragma once
// The command `drawbridge serve`.

#include <string>
#include <vector>

namespace drawbridge::server {

/// Runs the webhook until a signal ends it. `arguments` are those behind `serve`. Returns the exit
/// status: 0 after a drain or help, 1 where it could not start.
[[nodiscard]] int run_serve(const std::vector<std::string>& arguments);

}  // namespace drawbridge::server
