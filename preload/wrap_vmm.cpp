// Virtual memory management: physical memory is charged until the last of what holds it is gone,
// references to its handle and mappings.
#include "preload/charge.hpp"
#include "preload/resolve.hpp"
#include "preload/vmm.hpp"

#include <string.h>

namespace preload {
namespace {

// CUmemAllocationProp: type, handle types, location type, location id.
int device_of(const void* properties) {
    uint32_t words[4] = {};
    if (properties != nullptr) memcpy(words, properties, sizeof words);
    return words[2] == location_device ? static_cast<int>(words[3]) : -1;
}

int map(uint64_t address, uint64_t bytes, uint64_t offset, uint64_t handle, uint64_t flags,
        cuMemMap_function function) {
    Memory memory;
    {
        const Guard guard(physical.lock);
        if (!physical.mappings.promise()) return cuda_out_of_memory;
        memory = hold(handle);
    }
    const int status = function(address, bytes, offset, handle, flags);
    const Guard guard(physical.lock);
    if (status == cuda_success && memory.life != 0) {
        physical.mappings.keep({address, bytes, memory, ++physical.numbers});
        return status;
    }
    physical.mappings.withdraw();
    if (memory.life != 0) let_go(memory);
    if (status == cuda_success) count_unknown_handle();
    return status;
}

// What an address is mapped to is held meanwhile: it could be unmapped before it is known that
// there is a reference more.
int retain(void* handle, void* address, cuMemRetainAllocationHandle_function function) {
    Memory memory;
    {
        const Guard guard(physical.lock);
        memory = physical.mappings.memory_at(reinterpret_cast<uint64_t>(address));
        if (memory.life != 0) memory = hold(memory.handle);
    }
    const int status = function(handle, address);
    const Guard guard(physical.lock);
    if (status == cuda_success) add_reference(*static_cast<uint64_t*>(handle));
    if (memory.life != 0) let_go(memory);
    return status;
}

}  // namespace
}  // namespace preload

using namespace preload;

extern "C" {

int cuMemCreate(void* handle, uint64_t size, void* prop, uint64_t flags) {
    auto* function = real<cuMemCreate_function>(entry_cuMemCreate);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(handle, size, prop, flags);
    Reservation made;
    const int device = device_of(prop);
    if (!reserve(device, size, made)) return cuda_out_of_memory;
    const int status =
        call_for_memory(made.share, [=] { return function(handle, size, prop, flags); });
    if (status != cuda_success || made.share < 0) {
        cancel(made);
        return status;
    }
    settle(made, size, DRAWBRIDGE_GAUGE_VMM);
    const Guard guard(physical.lock);
    know_handle({*static_cast<uint64_t*>(handle), size, 1, static_cast<int16_t>(made.share),
                 Kind::vmm_handle, static_cast<int16_t>(device)});
    return status;
}

int cuMemRelease(uint64_t handle) {
    auto* function = real<cuMemRelease_function>(entry_cuMemRelease);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(handle);
    Memory memory;
    {
        const Guard guard(physical.lock);
        memory = memory_of(handle);
    }
    const int status = function(handle);
    if (status != cuda_success) return status;
    const Guard guard(physical.lock);
    drop_reference(memory);
    return status;
}

int cuMemRetainAllocationHandle(void* handle, void* addr) {
    auto* function = real<cuMemRetainAllocationHandle_function>(entry_cuMemRetainAllocationHandle);
    if (function == nullptr) return cuda_not_initialized;
    return enforcing() ? retain(handle, addr, function) : function(handle, addr);
}

int cuMemExportToShareableHandle(void* shareableHandle, uint64_t handle, uint32_t handleType,
                                 uint64_t flags) {
    auto* function =
        real<cuMemExportToShareableHandle_function>(entry_cuMemExportToShareableHandle);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(shareableHandle, handle, handleType, flags);
    if (status != cuda_success || !enforcing()) return status;
    const Guard guard(physical.lock);
    mark_shared(handle);
    return status;
}

int cuMemImportFromShareableHandle(void* handle, void* osHandle, uint32_t shHandleType) {
    auto* function =
        real<cuMemImportFromShareableHandle_function>(entry_cuMemImportFromShareableHandle);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(handle, osHandle, shHandleType);
    if (status != cuda_success || !enforcing()) return status;
    const Guard guard(physical.lock);
    const uint64_t value = *static_cast<uint64_t*>(handle);
    Record known;
    if (physical.handles.find(value, known))
        add_reference(value);
    else
        know_handle({value, 0, 1, -1, Kind::vmm_handle});  // whoever made it is charged
    mark_shared(value);
    return status;
}

int cuMemMap(uint64_t ptr, uint64_t size, uint64_t offset, uint64_t handle, uint64_t flags) {
    auto* function = real<cuMemMap_function>(entry_cuMemMap);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(ptr, size, offset, handle, flags);
    return map(ptr, size, offset, handle, flags, function);
}

int cuMemUnmap(uint64_t ptr, uint64_t size) {
    auto* function = real<cuMemUnmap_function>(entry_cuMemUnmap);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(ptr, size);
    const uint64_t last = last_number();
    const int status = function(ptr, size);
    if (status != cuda_success) return status;
    const Guard guard(physical.lock);
    physical.mappings.remove(ptr, size, last,
                             [](const Mapping& mapping) { let_go(mapping.memory); });
    return status;
}
}
