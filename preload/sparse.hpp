#pragma once
// Arrays without memory of their own, to which a program maps physical memory afterwards.

#include "preload/aside.hpp"
#include "preload/status.hpp"
#include "preload/table.hpp"

#include <stdint.h>

namespace preload {

/// Notes an array that was made. `is_deferred`: memory is mapped to it as a whole, not by boxes.
void sparse_array_made(uint64_t array, bool is_deferred);

/// Takes an array's record out before the driver destroys it, as its handle may come again at once;
/// puts it back, or lets go of what was mapped to it.
bool take_sparse_array(uint64_t array, Record& record);
void put_sparse_array_back(const Record& record);
void sparse_array_gone(const Record& record);

/// A driver call that destroys an array.
template <class Call>
int destroy_array(uint64_t array, Call call) {
    Record record;
    const bool is_sparse = take_sparse_array(array, record);
    const int status = call();
    if (!is_sparse) return status;
    if (status == cuda_success)
        sparse_array_gone(record);
    else
        put_sparse_array_back(record);
    return status;
}

/// Takes the records of a context's arrays out, which die with it; `all` holds them afterwards.
void take_sparse_arrays(uint64_t context, Aside& all);

/// Forgets all arrays, in a forked child.
void forget_sparse_arrays();

}  // namespace preload
