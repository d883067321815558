#pragma once
// How the commands of this program ask a running agent.

#include "base/result.hpp"

#include <string>

namespace drawbridge::agent {

/// The body of a page of the operator port at `address` (host:port), over a connection that the
/// agent closes behind it. `unavailable`: no agent answers, or it answers with a failure.
[[nodiscard]] base::Result<std::string> fetch_page(const std::string& address,
                                                   const std::string& path);

}  // namespace drawbridge::agent
