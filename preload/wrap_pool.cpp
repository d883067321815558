#include "preload/graphs.hpp"
#include "preload/os.hpp"
#include "preload/pools.hpp"
#include "preload/resolve.hpp"

#include <string.h>

namespace preload {
namespace {

constexpr int max_pools = 256;
constexpr uint64_t chunk = 32 * mib;  // what pools have been seen to grow by
constexpr uint32_t frees_between_looks = 64;

struct Pool {
    void* handle = nullptr;  // null: place is free
    int share = -1;
    bool destroyed = false;  // lives on until its last block is freed
    uint32_t live = 0;
    uint32_t frees = 0;
    uint64_t charged = 0;
};

Mutex pools_lock;  // guards the array and each pool's charge; never held across an allocation
Pool pools[max_pools];
int pool_places;

int index_of(void* handle) {
    for (int at = 0; at < pool_places; ++at)
        if (pools[at].handle == handle && !pools[at].destroyed) return at;
    return -1;
}

int enroll(void* handle, int share) {
    const Guard guard(pools_lock);
    int at = index_of(handle);
    if (at >= 0) return at;
    for (at = 0; at < pool_places && pools[at].handle != nullptr;)
        ++at;
    if (at == max_pools) return -1;
    if (at == pool_places) ++pool_places;
    pools[at] = {handle, share, false, 0, 0, 0};
    return at;
}

uint64_t reserved_now(void* pool, int attribute) {
    uint64_t bytes = 0;
    if (helpers.pool_attribute == nullptr ||
        helpers.pool_attribute(pool, attribute, &bytes) != cuda_success)
        return 0;
    return bytes;
}

// Caller holds the lock.
void look_at(Pool& pool) {
    const uint64_t now = pool.destroyed ? (pool.live == 0 ? 0 : pool.charged)
                                        : reserved_now(pool.handle, pool_reserved_current);
    adjust(pool.share, pool.charged, now, DRAWBRIDGE_GAUGE_POOL);
    pool.charged = now;
    pool.frees = 0;
    if (pool.destroyed && pool.live == 0) pool = Pool{};
}

void look_at(int at, int32_t more_blocks) {
    const Guard guard(pools_lock);
    pools[at].live += static_cast<uint32_t>(more_blocks);
    look_at(pools[at]);
}

bool has_room(void* pool, uint64_t bytes) {
    return reserved_now(pool, pool_reserved_current) >=
           reserved_now(pool, pool_used_current) + bytes;
}

bool over_limit(int share) {
    const ledger::Limits& limits = limits_of(share);
    return (limits.flags & DRAWBRIDGE_OBSERVE_ONLY) == 0 &&
           ledger::usage(process.shares[share].view) > limits.memory_bytes;
}

uint64_t chunks(uint64_t bytes) {
    return bytes > ledger::absurd_bytes ? bytes : (bytes + chunk - 1) / chunk * chunk;
}

// A block from a pool whose free part should hold it needs no reservation. Fragments may make the
// pool grow all the same; if that goes over the limit the block is given back.
template <class Call, class Undo>
int allocate_within(int at, int device, uint64_t bytes, Call call, Undo undo) {
    const int share = pools[at].share;
    Reservation made;
    if (!reserve_at_once(device, chunks(bytes), made) && !has_room(pools[at].handle, bytes) &&
        !reserve(device, chunks(bytes), made))
        return cuda_out_of_memory;
    int tries = 0;
    int status = call();
    while (status == cuda_out_of_memory && retry_after_reap(share, status, tries))
        status = call();
    const bool granted = status == cuda_success;
    look_at(at, granted ? 1 : 0);
    if (made.share >= 0 && granted)
        settle(made, 0, DRAWBRIDGE_GAUGE_POOL);
    else
        cancel(made);
    if (!granted || made.share >= 0 || !over_limit(share)) return status;
    undo();
    look_at(at, -1);
    ledger::add(own_slot(share).denied, 1);
    return cuda_out_of_memory;
}

template <class Call, class Undo>
int allocate(void* place, uint64_t bytes, void* pool, int device, Call call, Undo undo) {
    const int share = share_of_device(device);
    if (share < 0 || bytes == 0 || pool == nullptr) return call();
    const int at = enroll(pool, share);
    const auto key = [place] { return *static_cast<uint64_t*>(place); };
    if (at < 0)
        return make_block(device, ledger::rounded_linear(bytes), Kind::linear, 0, call, key);
    if (pools[at].share < 0) return call();  // another process's pool
    const int status = allocate_within(at, device, bytes, call, undo);
    if (status == cuda_success)
        blocks.insert({key(), bytes, static_cast<uint64_t>(at), static_cast<int16_t>(share),
                       Kind::pool_block});
    return status;
}

template <class Call, class Undo>
int allocate_on(void* place, uint64_t bytes, void* pool, void* stream, bool per_thread, Call call,
                Undo undo) {
    if (!enforcing()) return call();
    if (is_capturing(stream, per_thread)) {
        graph_memory_seen();
        return call();
    }
    const int device = device_of_stream(stream);
    if (pool == nullptr &&
        (helpers.device_pool == nullptr || helpers.device_pool(&pool, device) != cuda_success))
        return call();
    return allocate(place, bytes, pool, device, call, undo);
}

// CUmemPoolProps: type, handle types, location type, location id.
int share_of_properties(const void* properties) {
    uint32_t words[4];
    memcpy(words, properties, sizeof words);
    return words[2] == location_device ? share_of_device(static_cast<int>(words[3])) : -1;
}

}  // namespace

RelaxedCapture::RelaxedCapture() {
    if (helpers.exchange_capture_mode != nullptr) helpers.exchange_capture_mode(&mode_);
}

RelaxedCapture::~RelaxedCapture() {
    if (helpers.exchange_capture_mode != nullptr) helpers.exchange_capture_mode(&mode_);
}

int device_of_stream(void* stream) {
    if (process.device_count == 1) return 0;
    // 0, 1 and 2 are the default streams of the current context.
    if (reinterpret_cast<uintptr_t>(stream) <= 2 || helpers.stream_context == nullptr)
        return current_device();
    void* context = nullptr;
    if (helpers.stream_context(stream, &context) != cuda_success ||
        helpers.context_push(context) != cuda_success)
        return -1;
    const int device = current_device();
    helpers.context_pop(&context);
    return device;
}

bool is_capturing(void* stream, bool per_thread) {
    auto* ask = per_thread ? helpers.stream_capturing_ptsz : helpers.stream_capturing;
    int state = 0;
    return ask != nullptr && (ask(stream, &state) != cuda_success || state != 0);
}

void pool_block_freed(const Record& record) {
    const Guard guard(pools_lock);
    Pool& pool = pools[record.owner];
    ledger::add(own_slot(record.share).frees, 1);
    if (pool.live > 0) --pool.live;
    if (++pool.frees >= frees_between_looks || pool.live == 0) look_at(pool);
}

void refresh_pools() {
    {
        const Guard guard(pools_lock);
        for (int at = 0; at < pool_places; ++at)
            if (pools[at].handle != nullptr && pools[at].share >= 0) look_at(pools[at]);
    }
    refresh_graph_memory();
}

void trim_pools() {
    const RelaxedCapture relaxed;
    auto* trim = real<cuMemPoolTrimTo_function>(entry_cuMemPoolTrimTo);
    for (int at = 0; trim != nullptr && at < pool_places; ++at)
        if (pools[at].handle != nullptr && pools[at].share >= 0 && !pools[at].destroyed)
            trim(pools[at].handle, 0);
    trim_graph_memory();
    refresh_pools();
}

void forget_pools() {
    for (Pool& pool : pools)
        pool = Pool{};
    pool_places = 0;
    pools_lock = Mutex{};
}

}  // namespace preload

using namespace preload;

extern "C" {

int cuMemAllocAsync(void* dptr, uint64_t bytesize, void* hStream) {
    auto* function = real<cuMemAllocAsync_function>(entry_cuMemAllocAsync);
    if (function == nullptr) return cuda_not_initialized;
    return allocate_on(
        dptr, bytesize, nullptr, hStream, false, [=] { return function(dptr, bytesize, hStream); },
        [=] {
            real<cuMemFreeAsync_function>(entry_cuMemFreeAsync)(*static_cast<uint64_t*>(dptr),
                                                                hStream);
        });
}

int cuMemAllocAsync_ptsz(void* dptr, uint64_t bytesize, void* hStream) {
    auto* function = real<cuMemAllocAsync_ptsz_function>(entry_cuMemAllocAsync_ptsz);
    if (function == nullptr) return cuda_not_initialized;
    return allocate_on(
        dptr, bytesize, nullptr, hStream, true, [=] { return function(dptr, bytesize, hStream); },
        [=] {
            real<cuMemFreeAsync_function>(entry_cuMemFreeAsync_ptsz)(*static_cast<uint64_t*>(dptr),
                                                                     hStream);
        });
}

int cuMemAllocFromPoolAsync(void* dptr, uint64_t bytesize, void* pool, void* hStream) {
    auto* function = real<cuMemAllocFromPoolAsync_function>(entry_cuMemAllocFromPoolAsync);
    if (function == nullptr) return cuda_not_initialized;
    if (pool == nullptr) return function(dptr, bytesize, pool, hStream);
    return allocate_on(
        dptr, bytesize, pool, hStream, false,
        [=] { return function(dptr, bytesize, pool, hStream); },
        [=] {
            real<cuMemFreeAsync_function>(entry_cuMemFreeAsync)(*static_cast<uint64_t*>(dptr),
                                                                hStream);
        });
}

int cuMemAllocFromPoolAsync_ptsz(void* dptr, uint64_t bytesize, void* pool, void* hStream) {
    auto* function =
        real<cuMemAllocFromPoolAsync_ptsz_function>(entry_cuMemAllocFromPoolAsync_ptsz);
    if (function == nullptr) return cuda_not_initialized;
    if (pool == nullptr) return function(dptr, bytesize, pool, hStream);
    return allocate_on(
        dptr, bytesize, pool, hStream, true,
        [=] { return function(dptr, bytesize, pool, hStream); },
        [=] {
            real<cuMemFreeAsync_function>(entry_cuMemFreeAsync_ptsz)(*static_cast<uint64_t*>(dptr),
                                                                     hStream);
        });
}

int cuMemPoolCreate(void* pool, void* poolProps) {
    auto* function = real<cuMemPoolCreate_function>(entry_cuMemPoolCreate);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(pool, poolProps);
    if (status == cuda_success && enforcing())
        enroll(*static_cast<void**>(pool), share_of_properties(poolProps));
    return status;
}

int cuMemPoolImportFromShareableHandle(void* pool_out, void* handle, uint32_t handleType,
                                       uint64_t flags) {
    auto* function =
        real<cuMemPoolImportFromShareableHandle_function>(entry_cuMemPoolImportFromShareableHandle);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(pool_out, handle, handleType, flags);
    if (status == cuda_success && enforcing()) enroll(*static_cast<void**>(pool_out), -1);
    return status;
}

int cuMemPoolDestroy(void* pool) {
    auto* function = real<cuMemPoolDestroy_function>(entry_cuMemPoolDestroy);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(pool);
    const Guard guard(
        pools_lock);  // the handle may name another pool as soon as the driver returns
    const int at = index_of(pool);
    if (at >= 0 && pools[at].share >= 0) look_at(pools[at]);
    const int status = function(pool);
    if (status != cuda_success || at < 0) return status;
    pools[at].destroyed = true;
    look_at(pools[at]);
    return status;
}

int cuMemPoolTrimTo(void* pool, uint64_t minBytesToKeep) {
    auto* function = real<cuMemPoolTrimTo_function>(entry_cuMemPoolTrimTo);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(pool, minBytesToKeep);
    if (!enforcing()) return status;
    const Guard guard(pools_lock);
    const int at = index_of(pool);
    if (at >= 0 && pools[at].share >= 0) look_at(pools[at]);
    return status;
}
}
