// Contexts: what they cost beside allocations, and what dies with them.
#include "preload/charge.hpp"
#include "preload/contexts.hpp"
#include "preload/launch.hpp"
#include "preload/resolve.hpp"
#include "preload/sparse.hpp"

namespace preload {
namespace {

constexpr uint64_t primary_mark = uint64_t{1} << 32;

// Context -> bytes of overhead; `owner` is the device, marked if it is a primary context.
Table contexts;

void context_made(void* context, int device, bool primary) {
    const int share = share_of_device(device);
    const auto key = reinterpret_cast<uint64_t>(context);
    Record known;
    if (share < 0 || (primary && contexts.find(key, known))) return;
    const uint64_t bytes = limits_of(share).context_bytes;
    add_overhead(share, bytes);
    contexts.insert({key, bytes, static_cast<uint64_t>(device) | (primary ? primary_mark : 0),
                     static_cast<int16_t>(share), Kind::linear});
}

// The driver frees linear memory, arrays and modules with the context; handles of virtual memory
// and pools live on (seen on driver 580).
void context_gone(uint64_t context) {
    Record record;
    forget_gate(context);
    if (contexts.take(context, record)) drop_overhead(record.share, record.bytes);
    blocks.remove_if([context](const Record& block) {
        const bool dies = block.owner == context && block.kind != Kind::pool_block &&
                          block.kind != Kind::vmm_handle;
        if (dies) release(block.share, block.bytes, gauge_of(block.kind));
        return dies;
    });
    sparse_arrays_gone(context);
    refresh_pools();
}

uint64_t primary_of(int device) {
    uint64_t found = 0;
    contexts.remove_if([&](const Record& record) {
        if (record.owner == (static_cast<uint64_t>(device) | primary_mark)) found = record.key;
        return false;
    });
    return found;
}

int created(int status, void* context, int device, bool primary) {
    if (status == cuda_success && enforcing() && context != nullptr)
        context_made(*static_cast<void**>(context), device, primary);
    return status;
}

template <class Call>
int destroy(void* context, Call call) {
    const int status = call();
    if (status == cuda_success && enforcing()) context_gone(reinterpret_cast<uint64_t>(context));
    return status;
}

int released(int status, int device) {
    uint32_t flags = 0;
    int active = 1;
    if (status != cuda_success || !enforcing() || helpers.primary_state == nullptr ||
        helpers.primary_state(device, &flags, &active) != cuda_success || active != 0)
        return status;
    const uint64_t context = primary_of(device);
    if (context != 0) context_gone(context);
    return status;
}

int reset(int status, int device) {
    const uint64_t context = status == cuda_success && enforcing() ? primary_of(device) : 0;
    if (context != 0) context_gone(context);
    return status;
}

// Stacks are taken for every thread that the device can hold at once, as soon as the limit is set
// (seen on driver 580); the heap is taken when a module that uses it is loaded.
uint64_t limit_bytes(int device, uint32_t limit, uint64_t value) {
    if (value > ledger::absurd_bytes) return value;
    if (limit == limit_stack) return value * process.stack_threads[device];
    return limit == limit_malloc_heap || limit == limit_printf_fifo ? value : 0;
}

template <class Call>
int set_limit(uint32_t limit, uint64_t value, Call call) {
    uint64_t before = 0;
    const int device = enforcing() ? current_device() : -1;
    const int share = share_of_device(device);
    if (share < 0 || limit > limit_malloc_heap || helpers.context_limit == nullptr ||
        helpers.context_limit(&before, limit) != cuda_success)
        return call();
    const uint64_t then = limit_bytes(device, limit, before);
    const uint64_t wanted = limit_bytes(device, limit, value);
    Reservation made;
    if (wanted > then && !reserve_overhead(device, wanted - then, made)) return cuda_out_of_memory;
    const int status = call();
    if (status != cuda_success) {
        cancel(made);
        return status;
    }
    settle_overhead(made);
    if (wanted < then) drop_overhead(share, then - wanted);
    contexts.update(current_context(), [&](Record& record) {
        record.bytes = record.bytes + wanted < then ? 0 : record.bytes + wanted - then;
        return true;
    });
    return status;
}

}  // namespace

void forget_contexts() {
    contexts.forget();
}

}  // namespace preload

using namespace preload;

extern "C" {

int cuCtxCreate(void* pctx, uint32_t flags, int dev) {
    auto* function = real<cuCtxCreate_function>(entry_cuCtxCreate);
    return function == nullptr ? cuda_not_initialized
                               : created(function(pctx, flags, dev), pctx, dev, false);
}

int cuCtxCreate_v2(void* pctx, uint32_t flags, int dev) {
    auto* function = real<cuCtxCreate_v2_function>(entry_cuCtxCreate_v2);
    return function == nullptr ? cuda_not_initialized
                               : created(function(pctx, flags, dev), pctx, dev, false);
}

int cuCtxCreate_v3(void* pctx, void* paramsArray, int numParams, uint32_t flags, int dev) {
    auto* function = real<cuCtxCreate_v3_function>(entry_cuCtxCreate_v3);
    if (function == nullptr) return cuda_not_initialized;
    return created(function(pctx, paramsArray, numParams, flags, dev), pctx, dev, false);
}

int cuCtxCreate_v4(void* pctx, void* ctxCreateParams, uint32_t flags, int dev) {
    auto* function = real<cuCtxCreate_v4_function>(entry_cuCtxCreate_v4);
    if (function == nullptr) return cuda_not_initialized;
    return created(function(pctx, ctxCreateParams, flags, dev), pctx, dev, false);
}

int cuGLCtxCreate(void* pCtx, uint32_t Flags, int device) {
    auto* function = real<cuGLCtxCreate_function>(entry_cuGLCtxCreate);
    return function == nullptr ? cuda_not_initialized
                               : created(function(pCtx, Flags, device), pCtx, device, false);
}

int cuGLCtxCreate_v2(void* pCtx, uint32_t Flags, int device) {
    auto* function = real<cuGLCtxCreate_v2_function>(entry_cuGLCtxCreate_v2);
    return function == nullptr ? cuda_not_initialized
                               : created(function(pCtx, Flags, device), pCtx, device, false);
}

int cuVDPAUCtxCreate(void* pCtx, uint32_t flags, int device, uint32_t vdpDevice,
                     void* vdpGetProcAddress) {
    auto* function = real<cuVDPAUCtxCreate_function>(entry_cuVDPAUCtxCreate);
    if (function == nullptr) return cuda_not_initialized;
    return created(function(pCtx, flags, device, vdpDevice, vdpGetProcAddress), pCtx, device,
                   false);
}

int cuVDPAUCtxCreate_v2(void* pCtx, uint32_t flags, int device, uint32_t vdpDevice,
                        void* vdpGetProcAddress) {
    auto* function = real<cuVDPAUCtxCreate_v2_function>(entry_cuVDPAUCtxCreate_v2);
    if (function == nullptr) return cuda_not_initialized;
    return created(function(pCtx, flags, device, vdpDevice, vdpGetProcAddress), pCtx, device,
                   false);
}

int cuDevicePrimaryCtxRetain(void* pctx, int dev) {
    auto* function = real<cuDevicePrimaryCtxRetain_function>(entry_cuDevicePrimaryCtxRetain);
    return function == nullptr ? cuda_not_initialized
                               : created(function(pctx, dev), pctx, dev, true);
}

int cuCtxDestroy(void* ctx) {
    auto* function = real<cuCtxDestroy_function>(entry_cuCtxDestroy);
    return function == nullptr ? cuda_not_initialized : destroy(ctx, [=] { return function(ctx); });
}

int cuCtxDestroy_v2(void* ctx) {
    auto* function = real<cuCtxDestroy_v2_function>(entry_cuCtxDestroy_v2);
    return function == nullptr ? cuda_not_initialized : destroy(ctx, [=] { return function(ctx); });
}

int cuDevicePrimaryCtxRelease(int dev) {
    auto* function = real<cuDevicePrimaryCtxRelease_function>(entry_cuDevicePrimaryCtxRelease);
    return function == nullptr ? cuda_not_initialized : released(function(dev), dev);
}

int cuDevicePrimaryCtxRelease_v2(int dev) {
    auto* function =
        real<cuDevicePrimaryCtxRelease_v2_function>(entry_cuDevicePrimaryCtxRelease_v2);
    return function == nullptr ? cuda_not_initialized : released(function(dev), dev);
}

int cuDevicePrimaryCtxReset(int dev) {
    auto* function = real<cuDevicePrimaryCtxReset_function>(entry_cuDevicePrimaryCtxReset);
    return function == nullptr ? cuda_not_initialized : reset(function(dev), dev);
}

int cuDevicePrimaryCtxReset_v2(int dev) {
    auto* function = real<cuDevicePrimaryCtxReset_v2_function>(entry_cuDevicePrimaryCtxReset_v2);
    return function == nullptr ? cuda_not_initialized : reset(function(dev), dev);
}

int cuCtxSetLimit(uint32_t limit, uint64_t value) {
    auto* function = real<cuCtxSetLimit_function>(entry_cuCtxSetLimit);
    if (function == nullptr) return cuda_not_initialized;
    return set_limit(limit, value, [=] { return function(limit, value); });
}
}
