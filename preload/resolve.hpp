#pragma once
// Finds the real functions behind the wrapped names, without loading a driver before somebody asks
// for one.

#include "preload/entry_points.hpp"
#include "preload/status.hpp"

#include <stdint.h>

namespace preload {

extern const char* const entry_names[entry_count];
extern void* const entry_wrappers[entry_count];
extern const uint32_t entry_hash_seed;
extern const uint32_t entry_hash_mask;
extern const int16_t entry_hash_places[];
extern void* entry_reals[entry_count];

/// The index of a wrapped name, -1 for any other.
int entry_of_name(const char* name);
/// The index whose real function is at the address, -1 for any other.
int entry_of_address(const void* address);

/// Makes the real functions known. `load`: open the library if nobody has. False where it is not
/// there.
bool resolve_cuda(bool load);
bool resolve_nvml(bool load);

/// Where another build of this library, the front, stands in the place of libcuda.so.1: the
/// driver's own file behind it. The front then holds the limits, and this build passes everything
/// on to it. Null where the driver itself is the next; known after `resolve_cuda`.
void* held_behind();
/// Whether an address is the front's function of a name that the driver behind it lacks.
bool is_of_front_alone(int entry, const void* address);

/// The real function of a wrapped name if it is known, null otherwise.
template <class Function>
Function found(int entry) {
    return reinterpret_cast<Function>(__atomic_load_n(&entry_reals[entry], __ATOMIC_ACQUIRE));
}

/// The real function of a wrapped name, null where the driver lacks it.
template <class Function>
Function real(int entry) {
    auto* function = found<Function>(entry);
    if (function != nullptr) return function;
    if (entry < first_nvml_entry)
        resolve_cuda(true);
    else
        resolve_nvml(true);
    return found<Function>(entry);
}

/// Driver functions that the library calls and does not wrap. Null where the driver lacks them.
struct Helpers {
    int (*driver_version)(int*);
    int (*device_count)(int*);
    int (*device_uuid)(void*, int);
    int (*device_attribute)(int*, int, int);
    int (*context_current)(void**);
    int (*context_push)(void*);
    int (*context_pop)(void**);
    int (*context_device)(int*);
    int (*context_limit)(uint64_t*, uint32_t);
    int (*primary_state)(int, uint32_t*, int*);
    int (*stream_capturing)(void*, int*);
    int (*stream_capturing_ptsz)(void*, int*);
    int (*stream_context)(void*, void**);
    int (*exchange_capture_mode)(int*);
    int (*event_create)(void**, uint32_t);
    int (*event_record)(void*, void*);
    int (*event_record_ptsz)(void*, void*);
    int (*event_query)(void*);
    int (*event_elapsed)(float*, void*, void*);
    int (*device_pool)(void**, int);
    int (*default_pool)(void**, int);
    int (*pool_attribute)(void*, int, void*);
    int (*graph_attribute)(int, int, void*);
    int (*graph_nodes)(void*, void**, uint64_t*);
    int (*node_type)(void*, int*);
    int (*alloc_node)(void*, void*);
    int (*child_graph)(void*, void**);
    int (*nvml_uuid)(void*, char*, uint32_t);
};
extern Helpers helpers;

/// Whether NVML's setters are refused for this process (wrap_nvml.cpp).
bool setting_refused();

}  // namespace preload
