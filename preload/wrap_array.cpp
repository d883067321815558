// Arrays and mipmapped arrays.
#include "preload/array_size.hpp"
#include "preload/charge.hpp"
#include "preload/contexts.hpp"
#include "preload/resolve.hpp"
#include "preload/sparse.hpp"

#include <string.h>

namespace {

using namespace preload;

// CUDA_ARRAY_DESCRIPTOR and CUDA_ARRAY3D_DESCRIPTOR, in 32-bit (`_v1`) and 64-bit sizes.
template <class Size>
struct Flat {
    Size width, height;
    uint32_t format, channels;
};
template <class Size>
struct Deep {
    Size width, height, depth;
    uint32_t format, channels, flags;
};

template <class Size>
ArrayShape shape_of(const Flat<Size>& d) {
    return {d.width, d.height, 0, d.format, d.channels, 0, 1};
}
template <class Size>
ArrayShape shape_of(const Deep<Size>& d) {
    return {d.width, d.height, d.depth, d.format, d.channels, d.flags, 1};
}

template <class Descriptor, class Call>
int create(void* handle, const void* descriptor, uint32_t levels, Call call) {
    if (!enforcing() || descriptor == nullptr) return call();
    Descriptor copy;
    memcpy(&copy, descriptor, sizeof copy);
    ArrayShape shape = shape_of(copy);
    shape.levels = levels;
    const uint64_t bytes = array_bytes(shape);
    const auto key = [handle] { return reinterpret_cast<uint64_t>(*static_cast<void**>(handle)); };
    if (bytes != 0)
        return make_block(current_device(), bytes, Kind::array, owning_context(), call, key);
    const int status = call();
    if (status == cuda_success) sparse_array_made(key(), (shape.flags & array_deferred) != 0);
    return status;
}

template <class Call>
int destroy(void* handle, Call call) {
    if (!enforcing()) return call();
    const auto array = reinterpret_cast<uint64_t>(handle);
    return destroy_array(array, [=] { return free_block(array, call); });
}

}  // namespace

extern "C" {

int cuArrayCreate(void* pHandle, void* pAllocateArray) {
    auto* function = real<cuArrayCreate_function>(entry_cuArrayCreate);
    if (function == nullptr) return cuda_not_initialized;
    return create<Flat<uint32_t>>(pHandle, pAllocateArray, 1,
                                  [=] { return function(pHandle, pAllocateArray); });
}

int cuArrayCreate_v2(void* pHandle, void* pAllocateArray) {
    auto* function = real<cuArrayCreate_v2_function>(entry_cuArrayCreate_v2);
    if (function == nullptr) return cuda_not_initialized;
    return create<Flat<uint64_t>>(pHandle, pAllocateArray, 1,
                                  [=] { return function(pHandle, pAllocateArray); });
}

int cuArray3DCreate(void* pHandle, void* pAllocateArray) {
    auto* function = real<cuArray3DCreate_function>(entry_cuArray3DCreate);
    if (function == nullptr) return cuda_not_initialized;
    return create<Deep<uint32_t>>(pHandle, pAllocateArray, 1,
                                  [=] { return function(pHandle, pAllocateArray); });
}

int cuArray3DCreate_v2(void* pHandle, void* pAllocateArray) {
    auto* function = real<cuArray3DCreate_v2_function>(entry_cuArray3DCreate_v2);
    if (function == nullptr) return cuda_not_initialized;
    return create<Deep<uint64_t>>(pHandle, pAllocateArray, 1,
                                  [=] { return function(pHandle, pAllocateArray); });
}

int cuMipmappedArrayCreate(void* pHandle, void* pMipmappedArrayDesc, uint32_t numMipmapLevels) {
    auto* function = real<cuMipmappedArrayCreate_function>(entry_cuMipmappedArrayCreate);
    if (function == nullptr) return cuda_not_initialized;
    const uint32_t levels = numMipmapLevels == 0 ? 1 : numMipmapLevels;  // as the driver takes it
    return create<Deep<uint64_t>>(pHandle, pMipmappedArrayDesc, levels, [=] {
        return function(pHandle, pMipmappedArrayDesc, numMipmapLevels);
    });
}

int cuArrayDestroy(void* hArray) {
    auto* function = real<cuArrayDestroy_function>(entry_cuArrayDestroy);
    if (function == nullptr) return cuda_not_initialized;
    return destroy(hArray, [=] { return function(hArray); });
}

int cuMipmappedArrayDestroy(void* hMipmappedArray) {
    auto* function = real<cuMipmappedArrayDestroy_function>(entry_cuMipmappedArrayDestroy);
    if (function == nullptr) return cuda_not_initialized;
    return destroy(hMipmappedArray, [=] { return function(hMipmappedArray); });
}
}
