#pragma once
// `drawbridge-agent top`: the shares of a node, live.

namespace drawbridge::agent {

/// The exit status. Draws anew until a signal where standard output is a terminal, else once.
[[nodiscard]] int run_top(int count, char** arguments);

}  // namespace drawbridge::agent
