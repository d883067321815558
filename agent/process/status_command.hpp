#pragma once
// `drawbridge-agent status`: asks the agent of this node and prints what it says.

namespace drawbridge::agent {

/// Reads the arguments behind `status`; the exit status.
[[nodiscard]] int run_status(int count, char** arguments);

}  // namespace drawbridge::agent
