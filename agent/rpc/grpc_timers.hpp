#pragma once
// gRPC without threads that wake when there is nothing to do.

#include <chrono>

namespace drawbridge::agent::rpc {

/// How late gRPC may be with what it does by the clock, such as ending a call whose deadline has
/// passed. A call of ours does not depend on it.
inline constexpr std::chrono::seconds timer_step{5};

/// Starts gRPC, at the first call. Before anything else of gRPC.
void start_grpc();

/// Does what gRPC's timers are due for, at most once in a `timer_step`.
void run_grpc_timers();

}  // namespace drawbridge::agent::rpc
