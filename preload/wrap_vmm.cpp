// Virtual memory management: physical memory is charged until both its handle references and its
// mappings are gone.
#include "preload/charge.hpp"
#include "preload/os.hpp"
#include "preload/resolve.hpp"
#include "preload/vmm.hpp"

#include <string.h>

namespace preload {
namespace {

// A handle's value may come again as soon as the driver has released it, so this lock is held over
// those calls.
Mutex vmm_lock;
Table handles;  // handle -> bytes; `owner` counts references (low half) and mappings (high half)
MappingList mappings;

constexpr uint64_t one_mapping = uint64_t{1} << 32;

void change_counts(uint64_t handle, uint64_t more, uint64_t less) {
    Record last;
    bool gone = false;
    const bool known = handles.update(handle, [&](Record& record) {
        record.owner += more - less;
        gone = record.owner == 0;
        last = record;
        return !gone;
    });
    if (gone) release(last.share, last.bytes, DRAWBRIDGE_GAUGE_VMM);
    if (!known && process.share_count > 0 && process.shares[0].holds_slot)
        ledger::add(own_slot(0).unknown_handles, 1);
}

// CUmemAllocationProp: type, handle types, location type, location id.
int device_of(const void* properties) {
    uint32_t words[4] = {};
    if (properties != nullptr) memcpy(words, properties, sizeof words);
    return words[2] == location_device ? static_cast<int>(words[3]) : -1;
}

}  // namespace

void forget_vmm() {
    handles.forget();
    mappings.forget();
    vmm_lock = Mutex{};
}

}  // namespace preload

using namespace preload;

extern "C" {

int cuMemCreate(void* handle, uint64_t size, void* prop, uint64_t flags) {
    auto* function = real<cuMemCreate_function>(entry_cuMemCreate);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(handle, size, prop, flags);
    Reservation made;
    if (!reserve(device_of(prop), size, made)) return cuda_out_of_memory;
    int tries = 0;
    int status = function(handle, size, prop, flags);
    while (status == cuda_out_of_memory && retry_after_reap(made.share, status, tries))
        status = function(handle, size, prop, flags);
    if (status != cuda_success || made.share < 0) {
        cancel(made);
        return status;
    }
    settle(made, size, DRAWBRIDGE_GAUGE_VMM);
    const Guard guard(vmm_lock);
    handles.insert({*static_cast<uint64_t*>(handle), size, 1, static_cast<int16_t>(made.share),
                    Kind::vmm_handle});
    return status;
}

int cuMemRelease(uint64_t handle) {
    auto* function = real<cuMemRelease_function>(entry_cuMemRelease);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(handle);
    const Guard guard(vmm_lock);
    const int status = function(handle);
    if (status == cuda_success) change_counts(handle, 0, 1);
    return status;
}

int cuMemRetainAllocationHandle(void* handle, void* addr) {
    auto* function = real<cuMemRetainAllocationHandle_function>(entry_cuMemRetainAllocationHandle);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(handle, addr);
    const Guard guard(vmm_lock);
    const int status = function(handle, addr);
    if (status == cuda_success) change_counts(*static_cast<uint64_t*>(handle), 1, 0);
    return status;
}

int cuMemImportFromShareableHandle(void* handle, void* osHandle, uint32_t shHandleType) {
    auto* function =
        real<cuMemImportFromShareableHandle_function>(entry_cuMemImportFromShareableHandle);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(handle, osHandle, shHandleType);
    if (status != cuda_success || !enforcing()) return status;
    const Guard guard(vmm_lock);
    const uint64_t value = *static_cast<uint64_t*>(handle);
    Record record;
    if (handles.find(value, record))
        change_counts(value, 1, 0);
    else
        handles.insert({value, 0, 1, -1, Kind::vmm_handle});  // whoever made it is charged
    return status;
}

int cuMemMap(uint64_t ptr, uint64_t size, uint64_t offset, uint64_t handle, uint64_t flags) {
    auto* function = real<cuMemMap_function>(entry_cuMemMap);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(ptr, size, offset, handle, flags);
    const Guard guard(vmm_lock);
    const int status = function(ptr, size, offset, handle, flags);
    if (status == cuda_success && mappings.add({ptr, size, handle}))
        change_counts(handle, one_mapping, 0);
    return status;
}

int cuMemUnmap(uint64_t ptr, uint64_t size) {
    auto* function = real<cuMemUnmap_function>(entry_cuMemUnmap);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(ptr, size);
    const Guard guard(vmm_lock);
    const int status = function(ptr, size);
    if (status == cuda_success)
        mappings.remove(ptr, size, [](const Mapping& mapping) {
            change_counts(mapping.handle, 0, one_mapping);
        });
    return status;
}
}
