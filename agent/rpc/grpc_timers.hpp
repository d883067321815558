#pragma once
// gRPC without threads that wake when there is nothing to do.

#include <chrono>

namespace drawbridge::agent::rpc {

/// How late gRPC may be with what it does by the clock. A caller that goes is told at once, and the
/// deadline of a call of ours is kept by whoever waits for it.
inline constexpr std::chrono::seconds timer_step{60};

/// Starts gRPC, at the first call. Before anything else of gRPC.
void start_grpc();

/// Does what gRPC's timers are due for. Any thread.
void tick_grpc_timers();

}  // namespace drawbridge::agent::rpc
