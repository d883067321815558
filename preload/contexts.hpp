#pragma once
// Which context memory belongs to, and resetting of contexts after a fork.

#include <stdint.h>

namespace preload {

/// The context that memory which the calling thread takes now dies with: its current one, or the
/// primary context of which a green one has a part. 0 where it has none.
uint64_t owning_context();

/// Forgets all contexts, in a forked child.
void forget_contexts();

}  // namespace preload
