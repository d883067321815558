#pragma once
// Resetting of contexts after a fork.

namespace preload {

/// Forgets all contexts, in a forked child.
void forget_contexts();

}  // namespace preload
