#pragma once
// A gRPC call to a unix socket, for what we ask of the kubelet and of ourselves.

#include "base/result.hpp"

#include <chrono>
#include <string>

namespace drawbridge::agent::rpc {

/// Calls a method by its full name and waits. `unavailable` where nobody answers, `timed_out` at
/// the deadline.
[[nodiscard]] base::Result<std::string> call_rpc(const std::string& socket_path,
                                                 const std::string& method,
                                                 const std::string& request,
                                                 std::chrono::milliseconds patience);

}  // namespace drawbridge::agent::rpc
