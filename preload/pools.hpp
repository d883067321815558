#pragma once
// Memory pools of the driver: charged by what they reserve, not by what is cut from them.

#include "preload/charge.hpp"

namespace preload {

/// Frees a pool's block with `call`; the pool's charge follows.
void free_pool_block_begin(uint64_t pointer, Record& record, bool& known);
void free_pool_block_end(const Record& record, bool known, int status);

template <class Call>
int free_pool_block(uint64_t pointer, Call call) {
    Record record;
    bool known = false;
    free_pool_block_begin(pointer, record, known);
    const int status = call();
    free_pool_block_end(record, known, status);
    return status;
}

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
