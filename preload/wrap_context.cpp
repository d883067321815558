// Contexts: what they cost beside allocations, and what dies with them.
#include "preload/charge.hpp"
#include "preload/contexts.hpp"
#include "preload/launch.hpp"
#include "preload/resolve.hpp"
#include "preload/sparse.hpp"

namespace preload {
namespace {

constexpr uint64_t primary_mark = uint64_t{1} << 32;

// Context -> bytes of overhead; `owner` is the device, marked if it is a primary context, and
// `life` how often it was attached to.
Table contexts;
// Green contexts -> `owner`, their device; and what is current in their place -> `bytes`, the green
// one. Each holds the primary context of its device.
Table greens;
Table faces;
bool has_faces;
int32_t retains[max_devices];  // of primary contexts, as far as seen
Mutex making;                  // so that a primary context is counted once

void context_made(void* context, int device, bool primary) {
    const int share = share_of_device(device);
    const auto key = reinterpret_cast<uint64_t>(context);
    if (share < 0) return;
    const uint64_t bytes = limits_of(share).context_bytes;
    const Guard guard(making);
    Record before;
    if (primary && contexts.find(key, before)) return;
    add_overhead(share, bytes);
    contexts.insert({key, bytes, static_cast<uint64_t>(device) | (primary ? primary_mark : 0),
                     static_cast<int16_t>(share), Kind::linear},
                    before);
    if (before.key != 0) drop_overhead(before.share, before.bytes);  // its handle came again
}

// What is known of a context, out of the tables while the driver destroys it: its own handle may
// come again at once, and so may addresses and handles of what dies with it. Those are linear
// memory, arrays and modules; handles of virtual memory and pools live on (seen on driver 580).
class Dying {
public:
    explicit Dying(uint64_t context) {
        if (context == 0) return;
        forget_gate(context);
        contexts.take(context, context_);
        blocks.remove_if([&](const Record& block) {
            return block.owner == context && block.kind != Kind::pool_block &&
                   block.kind != Kind::vmm_handle && blocks_.add(block);
        });
        take_sparse_arrays(context, arrays_);
    }

    void gone() const {
        if (context_.key != 0) drop_overhead(context_.share, context_.bytes);
        blocks_.each(block_gone);
        arrays_.each(sparse_array_gone);
        refresh_pools();
    }

    // What has come again meanwhile is another's.
    void put_back() const {
        if (context_.key != 0) contexts.insert(context_);
        blocks_.each([](const Record& block) {
            Record now;
            if (blocks.find(block.key, now))
                block_gone(block);
            else
                blocks.insert(block);
        });
        arrays_.each(put_sparse_array_back);
    }

    /// Whether there is a context of this handle again.
    bool came_again() const {
        Record now;
        return context_.key != 0 && contexts.find(context_.key, now);
    }

private:
    Record context_;
    Aside blocks_;
    Aside arrays_;
};

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
int destroy(uint64_t context, Call call) {
    if (!enforcing()) return call();
    const Dying dying(context);
    const int status = call();
    status == cuda_success ? dying.gone() : dying.put_back();
    return status;
}

int attached(int status, void* context, int more) {
    if (status == cuda_success && enforcing() && context != nullptr)
        contexts.update(reinterpret_cast<uint64_t>(context), [more](Record& record) {
            record.life = static_cast<uint16_t>(record.life + more);
            return true;
        });
    return status;
}

// The last one that detaches destroys it.
template <class Call>
int detach(void* context, Call call) {
    const auto key = reinterpret_cast<uint64_t>(context);
    Record record;
    if (enforcing() && contexts.find(key, record) && record.life > 0)
        return attached(call(), context, -1);
    return destroy(key, call);
}

bool is_active(int device) {
    uint32_t flags = 0;
    int active = 1;
    return helpers.primary_state == nullptr ||
           helpers.primary_state(device, &flags, &active) != cuda_success || active != 0;
}

// Which release is the last one is known after it alone; then another thread may have retained the
// context again, and have memory in it. That is told from the old one's where the release was
// expected to be the last.
template <class Call>
int release_primary(int device, Call call) {
    if (!enforcing() || share_of_device(device) < 0) return call();
    const uint64_t context = primary_of(device);
    const bool is_expected = __atomic_load_n(&retains[device], __ATOMIC_RELAXED) == 1;
    const Dying expected(is_expected ? context : 0);
    const int status = call();
    if (status == cuda_success) __atomic_fetch_sub(&retains[device], 1, __ATOMIC_RELAXED);
    const bool is_last = status == cuda_success && !is_active(device);
    if (is_last && !is_expected)
        Dying(context).gone();
    else if (is_last || expected.came_again())
        expected.gone();
    else
        expected.put_back();
    if (is_last && context != 0 && is_active(device))
        context_made(reinterpret_cast<void*>(context), device, true);
    return status;
}

int retained(int status, void* context, int device) {
    if (status == cuda_success && share_of_device(device) >= 0)
        __atomic_fetch_add(&retains[device], 1, __ATOMIC_RELAXED);
    return created(status, context, device, true);
}

// It has retained the primary context, and does not tell which that is.
int green_made(int status, const void* place, int device) {
    if (status != cuda_success || !enforcing() || share_of_device(device) < 0) return status;
    greens.insert({*static_cast<const uint64_t*>(place), 0, static_cast<uint64_t>(device)});
    auto* retain = real<cuDevicePrimaryCtxRetain_function>(entry_cuDevicePrimaryCtxRetain);
    auto* release = real<cuDevicePrimaryCtxRelease_function>(entry_cuDevicePrimaryCtxRelease_v2);
    void* primary = nullptr;
    if (retain == nullptr || release == nullptr || retain(&primary, device) != cuda_success)
        return status;
    retained(cuda_success, &primary, device);
    release(device);
    return status;
}

int face_made(int status, const void* place, uint64_t green) {
    Record known;
    if (status != cuda_success || !enforcing() || !greens.find(green, known)) return status;
    faces.insert({*static_cast<const uint64_t*>(place), green, known.owner});
    __atomic_store_n(&has_faces, true, __ATOMIC_RELAXED);
    return status;
}

template <class Call>
int destroy_green(uint64_t green, Call call) {
    Record record;
    if (!enforcing() || !greens.take(green, record)) return call();
    const int status = release_primary(static_cast<int>(record.owner), call);
    if (status != cuda_success)
        greens.insert(record);
    else
        faces.remove_if([green](const Record& face) { return face.bytes == green; });
    return status;
}

template <class Call>
int reset(int device, Call call) {
    return destroy(enforcing() ? primary_of(device) : 0, call);
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
    contexts.update(owning_context(), [&](Record& record) {
        record.bytes = record.bytes + wanted < then ? 0 : record.bytes + wanted - then;
        return true;
    });
    return status;
}

}  // namespace

uint64_t owning_context() {
    const uint64_t context = current_context();
    Record face;
    if (!__atomic_load_n(&has_faces, __ATOMIC_RELAXED) || !faces.find(context, face))
        return context;
    const uint64_t primary = primary_of(static_cast<int>(face.owner));
    return primary != 0 ? primary : context;
}

void forget_contexts() {
    contexts.forget();
    greens.forget();
    faces.forget();
    for (int32_t& count : retains)
        count = 0;
    making = Mutex{};
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
    return function == nullptr ? cuda_not_initialized : retained(function(pctx, dev), pctx, dev);
}

int cuCtxDestroy(void* ctx) {
    auto* function = real<cuCtxDestroy_function>(entry_cuCtxDestroy);
    return function == nullptr
               ? cuda_not_initialized
               : destroy(reinterpret_cast<uint64_t>(ctx), [=] { return function(ctx); });
}

int cuCtxDestroy_v2(void* ctx) {
    auto* function = real<cuCtxDestroy_v2_function>(entry_cuCtxDestroy_v2);
    return function == nullptr
               ? cuda_not_initialized
               : destroy(reinterpret_cast<uint64_t>(ctx), [=] { return function(ctx); });
}

int cuCtxAttach(void* pctx, uint32_t flags) {
    auto* function = real<cuCtxAttach_function>(entry_cuCtxAttach);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(pctx, flags);
    return status == cuda_success ? attached(status, *static_cast<void**>(pctx), 1) : status;
}

int cuCtxDetach(void* ctx) {
    auto* function = real<cuCtxDetach_function>(entry_cuCtxDetach);
    return function == nullptr ? cuda_not_initialized : detach(ctx, [=] { return function(ctx); });
}

int cuDevicePrimaryCtxRelease(int dev) {
    auto* function = real<cuDevicePrimaryCtxRelease_function>(entry_cuDevicePrimaryCtxRelease);
    return function == nullptr ? cuda_not_initialized
                               : release_primary(dev, [=] { return function(dev); });
}

int cuDevicePrimaryCtxRelease_v2(int dev) {
    auto* function =
        real<cuDevicePrimaryCtxRelease_v2_function>(entry_cuDevicePrimaryCtxRelease_v2);
    return function == nullptr ? cuda_not_initialized
                               : release_primary(dev, [=] { return function(dev); });
}

int cuDevicePrimaryCtxReset(int dev) {
    auto* function = real<cuDevicePrimaryCtxReset_function>(entry_cuDevicePrimaryCtxReset);
    return function == nullptr ? cuda_not_initialized : reset(dev, [=] { return function(dev); });
}

int cuDevicePrimaryCtxReset_v2(int dev) {
    auto* function = real<cuDevicePrimaryCtxReset_v2_function>(entry_cuDevicePrimaryCtxReset_v2);
    return function == nullptr ? cuda_not_initialized : reset(dev, [=] { return function(dev); });
}

int cuGreenCtxCreate(void* phCtx, void* desc, int dev, uint32_t flags) {
    auto* function = real<cuGreenCtxCreate_function>(entry_cuGreenCtxCreate);
    return function == nullptr ? cuda_not_initialized
                               : green_made(function(phCtx, desc, dev, flags), phCtx, dev);
}

int cuGreenCtxDestroy(void* hCtx) {
    auto* function = real<cuGreenCtxDestroy_function>(entry_cuGreenCtxDestroy);
    if (function == nullptr) return cuda_not_initialized;
    return destroy_green(reinterpret_cast<uint64_t>(hCtx), [=] { return function(hCtx); });
}

int cuCtxFromGreenCtx(void* pContext, void* hCtx) {
    auto* function = real<cuCtxFromGreenCtx_function>(entry_cuCtxFromGreenCtx);
    if (function == nullptr) return cuda_not_initialized;
    return face_made(function(pContext, hCtx), pContext, reinterpret_cast<uint64_t>(hCtx));
}

int cuCtxSetLimit(uint32_t limit, uint64_t value) {
    auto* function = real<cuCtxSetLimit_function>(entry_cuCtxSetLimit);
    if (function == nullptr) return cuda_not_initialized;
    return set_limit(limit, value, [=] { return function(limit, value); });
}
}
