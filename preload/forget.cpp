#include "preload/charge.hpp"
#include "preload/contexts.hpp"
#include "preload/graphs.hpp"
#include "preload/launch.hpp"
#include "preload/pools.hpp"
#include "preload/sparse.hpp"
#include "preload/state.hpp"
#include "preload/view.hpp"
#include "preload/vmm.hpp"

namespace preload {

void forget_blocks() {
    blocks.forget();
    close_launches();
    forget_contexts();
    forget_gates();
    forget_graphs();
    forget_handles();
    forget_pools();
    forget_sparse_arrays();
    forget_vmm();
}

}  // namespace preload
