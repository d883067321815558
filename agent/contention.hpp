#pragma once
// Whose compute is to be limited, since another share of the same GPU works (enforcement.md 4.8).

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// A share as far as others notice it.
struct Neighbour {
    std::string device = {};   ///< UUID of the GPU or MIG device
    bool worked = false;       ///< within the last second, as its ledger tells
    bool has_limit = true;     ///< on compute: without one its launches are not counted
    bool has_process = false;  ///< one that uses the GPU
};

/// Whether the share keeps its neighbours from having the GPU to themselves. One whose launches
/// nobody counts does while a process of it is there.
[[nodiscard]] bool is_active(const Neighbour& share);

/// Places of the shares that share their GPU with another one that is active.
[[nodiscard]] std::vector<std::size_t> contended(std::span<const Neighbour> shares);

}  // namespace drawbridge::agent
