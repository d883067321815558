#pragma once
// Numbers of the CUDA driver and NVML interfaces that the library speaks of; values from their
// public headers.

#include <stdint.h>

namespace preload {

/// CUresult.
enum : int {
    cuda_success = 0,
    cuda_invalid_value = 1,
    cuda_out_of_memory = 2,
    cuda_not_initialized = 3,
    cuda_no_device = 100,
    cuda_invalid_context = 201,
    cuda_not_ready = 600,
    cuda_not_permitted = 800,
};

/// nvmlReturn_t.
enum : int {
    nvml_success = 0,
    nvml_invalid_argument = 2,
    nvml_no_permission = 4,
    nvml_not_found = 6,
    nvml_insufficient_size = 7,
    nvml_library_not_found = 12,
    nvml_function_not_found = 13,
};

/// CUmemLocationType and CUmemAllocationType.
enum : uint32_t { location_device = 1, memory_managed = 2 };

/// CUmemPool_attribute and CUgraphMem_attribute.
enum : int { pool_reserved_current = 5, pool_used_current = 7, graph_reserved_current = 2 };

/// CUlimit.
enum : uint32_t { limit_stack = 0, limit_printf_fifo = 1, limit_malloc_heap = 2 };

/// CUdevice_attribute.
enum : int {
    attribute_multiprocessors = 16,
    attribute_integrated = 18,
    attribute_threads_per_multiprocessor = 39
};

inline constexpr uint64_t kib = 1024;
inline constexpr uint64_t mib = 1024 * kib;

}  // namespace preload
