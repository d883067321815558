#pragma once
// Memory pools of the driver: charged by what they reserve, not by what is cut from them.

#include "preload/charge.hpp"

namespace preload {

/// The driver has freed a pool's block: its charge follows.
void pool_block_freed(const Record& record);

/// Forgets all pools, in a forked child.
void forget_pools();

/// Makes driver calls that capture modes forbid possible, for as long as it lives.
class RelaxedCapture {
public:
    RelaxedCapture();
    ~RelaxedCapture();
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    int mode_ = 2;
};

/// Device on which a stream runs, -1 where that cannot be had.
int device_of_stream(void* stream);

/// Whether a stream is being captured, or cannot be asked because another one is.
bool is_capturing(void* stream, bool per_thread);

}  // namespace preload
