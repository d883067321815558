#pragma once
// How long to wait after failures in a row.

#include <chrono>

namespace drawbridge::kube::client {

/// The wait after `failures` failures in a row (from 1): doubling from half a second up to 30 s, of
/// which `random`, in [0, 1), keeps between one half and all, so that replicas do not return
/// together.
[[nodiscard]] std::chrono::milliseconds backoff(int failures, double random);

}  // namespace drawbridge::kube::client
