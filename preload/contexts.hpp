#pragma once

namespace preload {

/// Forgets all contexts, in a forked child.
void forget_contexts();

}  // namespace preload
