#pragma once
// Memory pools of the driver: charged by what they reserve, not by what is cut from them.

#include "preload/charge.hpp"

namespace preload {

/// The driver has freed a pool's block: its charge follows.
void pool_block_freed(const Record& record);

/// The program has waited for the driver: what pools were given back before may have gone.
void pools_synchronized();

/// Forgets all pools, in a forked child.
void forget_pools();

}  // namespace preload
