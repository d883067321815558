// Linear, pitched and managed memory, and freeing of every kind of pointer.
#include "preload/charge.hpp"
#include "preload/contexts.hpp"
#include "preload/pools.hpp"
#include "preload/resolve.hpp"

namespace {

using namespace preload;

constexpr uint64_t pitch_step = 512;  // what drivers have been seen to round a row to

template <class Pointer>
auto key_at(void* place) {
    return [place] { return uint64_t{*static_cast<Pointer*>(place)}; };
}

template <class Pointer, class Call>
int allocate(void* place, uint64_t bytes, Call call) {
    if (!enforcing() || bytes == 0) return call();
    return make_block(current_device(), ledger::rounded_linear(bytes), Kind::linear,
                      owning_context(), call, key_at<Pointer>(place));
}

uint64_t pitched_bytes(uint64_t pitch, uint64_t height) {
    uint64_t bytes = 0;
    if (__builtin_mul_overflow(pitch, height, &bytes)) return ledger::absurd_bytes + 1;
    return ledger::rounded_linear(bytes);
}

// Reserves for the pitch that is expected, keeps what the driver then says.
template <class Pointer, class Size, class Call>
int allocate_pitched(void* place, void* pitch, uint64_t width, uint64_t height, Call call) {
    if (!enforcing() || width == 0 || height == 0) return call();
    const uint64_t row =
        width > ledger::absurd_bytes ? width : (width + pitch_step - 1) / pitch_step * pitch_step;
    return make_block(current_device(), pitched_bytes(row, height), Kind::linear, owning_context(),
                      call, key_at<Pointer>(place),
                      [=] { return pitched_bytes(*static_cast<Size*>(pitch), height); });
}

template <class Call>
int free_pointer(uint64_t pointer, Call call) {
    if (!enforcing() || pointer == 0) return call();
    return free_block(pointer, call);
}

// These wait for the driver.
template <class Call>
int free_and_wait(uint64_t pointer, Call call) {
    const int status = free_pointer(pointer, call);
    if (status == cuda_success && enforcing()) pools_synchronized();
    return status;
}

}  // namespace

extern "C" {

int cuMemAlloc(void* dptr, uint32_t bytesize) {
    auto* function = real<cuMemAlloc_function>(entry_cuMemAlloc);
    if (function == nullptr) return cuda_not_initialized;
    return allocate<uint32_t>(dptr, bytesize, [=] { return function(dptr, bytesize); });
}

int cuMemAlloc_v2(void* dptr, uint64_t bytesize) {
    auto* function = real<cuMemAlloc_v2_function>(entry_cuMemAlloc_v2);
    if (function == nullptr) return cuda_not_initialized;
    return allocate<uint64_t>(dptr, bytesize, [=] { return function(dptr, bytesize); });
}

int cuMemAllocPitch(void* dptr, void* pPitch, uint32_t WidthInBytes, uint32_t Height,
                    uint32_t ElementSizeBytes) {
    auto* function = real<cuMemAllocPitch_function>(entry_cuMemAllocPitch);
    if (function == nullptr) return cuda_not_initialized;
    return allocate_pitched<uint32_t, uint32_t>(dptr, pPitch, WidthInBytes, Height, [=] {
        return function(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    });
}

int cuMemAllocPitch_v2(void* dptr, void* pPitch, uint64_t WidthInBytes, uint64_t Height,
                       uint32_t ElementSizeBytes) {
    auto* function = real<cuMemAllocPitch_v2_function>(entry_cuMemAllocPitch_v2);
    if (function == nullptr) return cuda_not_initialized;
    return allocate_pitched<uint64_t, uint64_t>(dptr, pPitch, WidthInBytes, Height, [=] {
        return function(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    });
}

int cuMemAllocManaged(void* dptr, uint64_t bytesize, uint32_t flags) {
    auto* function = real<cuMemAllocManaged_function>(entry_cuMemAllocManaged);
    if (function == nullptr) return cuda_not_initialized;
    const auto call = [=] { return function(dptr, bytesize, flags); };
    if (!enforcing() || bytesize == 0) return call();
    const int device = current_device();
    const int share = share_of_device(device);
    if (share < 0 || (limits_of(share).flags & DRAWBRIDGE_CHARGE_MANAGED) == 0) return call();
    return make_block(device, ledger::rounded_linear(bytesize), Kind::managed, owning_context(),
                      call, key_at<uint64_t>(dptr));
}

int cuMemFree(uint32_t dptr) {
    auto* function = real<cuMemFree_function>(entry_cuMemFree);
    if (function == nullptr) return cuda_not_initialized;
    return free_and_wait(dptr, [=] { return function(dptr); });
}

int cuMemFree_v2(uint64_t dptr) {
    auto* function = real<cuMemFree_v2_function>(entry_cuMemFree_v2);
    if (function == nullptr) return cuda_not_initialized;
    return free_and_wait(dptr, [=] { return function(dptr); });
}

int cuMemFreeAsync(uint64_t dptr, void* hStream) {
    auto* function = real<cuMemFreeAsync_function>(entry_cuMemFreeAsync);
    if (function == nullptr) return cuda_not_initialized;
    return free_pointer(dptr, [=] { return function(dptr, hStream); });
}

int cuMemFreeAsync_ptsz(uint64_t dptr, void* hStream) {
    auto* function = real<cuMemFreeAsync_ptsz_function>(entry_cuMemFreeAsync_ptsz);
    if (function == nullptr) return cuda_not_initialized;
    return free_pointer(dptr, [=] { return function(dptr, hStream); });
}
}
