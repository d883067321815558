#pragma once
// Whose compute is to be limited, since another share of the same GPU works, and whose work waits
// for one of a higher priority (enforcement.md 4.8). Pure.

#include "agent/node_settings.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
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
    /// The driver has seen its kernels run; nothing: it does not tell.
    std::optional<bool> gpu_busy = std::nullopt;
    std::uint32_t priority = 0;  ///< 0 is high
};

/// Whether the share keeps its neighbours from having the GPU to themselves. One whose launches
/// nobody counts does while a process of it is there.
[[nodiscard]] bool is_active(const Neighbour& share);

/// How many active shares a GPU has.
[[nodiscard]] std::size_t count_active(std::span<const Neighbour> shares,
                                       const std::string& device);

/// Places of the shares that share their GPU with another one that is active.
[[nodiscard]] std::vector<std::size_t> contended(std::span<const Neighbour> shares);

/// Places of the shares on whose GPU one of a higher priority is seen to work. A process that may
/// be idle stops nobody.
[[nodiscard]] std::vector<std::size_t> outranked(std::span<const Neighbour> shares);

/// Keeps one share from waiting for ever: after the longest pause it is free for a while.
class PauseGuard {
public:
    /// Whether a share that is outranked, or not, is to be paused now.
    [[nodiscard]] bool look(bool is_outranked, std::uint64_t now_ns, const PauseTimes& times);

private:
    std::optional<std::uint64_t> since_ns_;
    std::uint64_t free_until_ns_ = 0;
};

}  // namespace drawbridge::agent
