// Multicast objects: they have no memory of their own, and hold what is bound to them until it is
// unbound or the object is gone.
#include "preload/charge.hpp"
#include "preload/resolve.hpp"
#include "preload/vmm.hpp"

namespace preload {
namespace {

// A range of a multicast object. `device` is -1 where the call leaves it to the memory.
struct Binding {
    uint64_t object;
    int device;
    uint64_t offset;
    uint64_t bytes;
};

template <class Find, class Call>
int bind(const Binding& binding, Find find, Call call) {
    if (!enforcing()) return call();
    Memory memory;
    int device = -1;
    {
        const Guard guard(physical.lock);
        if (!physical.pieces.promise(1)) return cuda_out_of_memory;
        memory = hold_charged(find(), device);
    }
    const int status = call();
    const Guard guard(physical.lock);
    if (status == cuda_success && memory.life != 0) {
        const int host = binding.device >= 0 ? binding.device : device;
        physical.pieces.keep({binding.object, static_cast<uint64_t>(host),
                              range_of(binding.offset, binding.bytes), memory, ++physical.numbers});
        return status;
    }
    physical.pieces.withdraw(1);
    if (memory.life != 0) let_go(memory);
    return status;
}

template <class Call>
int bind_memory(const Binding& binding, uint64_t handle, Call call) {
    return bind(
        binding, [handle] { return handle; }, call);
}

template <class Call>
int bind_address(const Binding& binding, uint64_t address, Call call) {
    return bind(
        binding, [address] { return physical.mappings.memory_at(address).handle; }, call);
}

}  // namespace
}  // namespace preload

using namespace preload;

extern "C" {

int cuMulticastCreate(void* mcHandle, void* prop) {
    auto* function = real<cuMulticastCreate_function>(entry_cuMulticastCreate);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(mcHandle, prop);
    if (status != cuda_success || !enforcing()) return status;
    const Guard guard(physical.lock);
    know_handle({*static_cast<uint64_t*>(mcHandle), 0, 1, -1, Kind::vmm_handle});
    return status;
}

int cuMulticastBindMem(uint64_t mcHandle, uint64_t mcOffset, uint64_t memHandle, uint64_t memOffset,
                       uint64_t size, uint64_t flags) {
    auto* function = real<cuMulticastBindMem_function>(entry_cuMulticastBindMem);
    if (function == nullptr) return cuda_not_initialized;
    return bind_memory({mcHandle, -1, mcOffset, size}, memHandle, [=] {
        return function(mcHandle, mcOffset, memHandle, memOffset, size, flags);
    });
}

int cuMulticastBindMem_v2(uint64_t mcHandle, int dev, uint64_t mcOffset, uint64_t memHandle,
                          uint64_t memOffset, uint64_t size, uint64_t flags) {
    auto* function = real<cuMulticastBindMem_v2_function>(entry_cuMulticastBindMem_v2);
    if (function == nullptr) return cuda_not_initialized;
    return bind_memory({mcHandle, dev, mcOffset, size}, memHandle, [=] {
        return function(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
    });
}

int cuMulticastBindAddr(uint64_t mcHandle, uint64_t mcOffset, uint64_t memptr, uint64_t size,
                        uint64_t flags) {
    auto* function = real<cuMulticastBindAddr_function>(entry_cuMulticastBindAddr);
    if (function == nullptr) return cuda_not_initialized;
    return bind_address({mcHandle, -1, mcOffset, size}, memptr,
                        [=] { return function(mcHandle, mcOffset, memptr, size, flags); });
}

int cuMulticastBindAddr_v2(uint64_t mcHandle, int dev, uint64_t mcOffset, uint64_t memptr,
                           uint64_t size, uint64_t flags) {
    auto* function = real<cuMulticastBindAddr_v2_function>(entry_cuMulticastBindAddr_v2);
    if (function == nullptr) return cuda_not_initialized;
    return bind_address({mcHandle, dev, mcOffset, size}, memptr,
                        [=] { return function(mcHandle, dev, mcOffset, memptr, size, flags); });
}

int cuMulticastUnbind(uint64_t mcHandle, int dev, uint64_t mcOffset, uint64_t size) {
    auto* function = real<cuMulticastUnbind_function>(entry_cuMulticastUnbind);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(mcHandle, dev, mcOffset, size);
    const uint64_t last = last_number();
    const int status = function(mcHandle, dev, mcOffset, size);
    if (status != cuda_success) return status;
    const Guard guard(physical.lock);
    cut_pieces(mcHandle, static_cast<uint64_t>(dev), range_of(mcOffset, size), last);
    return status;
}
}
