#pragma once
// Resetting what a forked child must not keep.

namespace preload {

/// Forgets all blocks, handles, pools and graphs of the parent.
void forget_blocks();

}  // namespace preload
