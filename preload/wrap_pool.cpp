#include "preload/graphs.hpp"
#include "preload/os.hpp"
#include "preload/pools.hpp"
#include "preload/resolve.hpp"
#include "preload/streams.hpp"

#include <string.h>

namespace preload {
namespace {

constexpr int max_pools = 256;
constexpr uint64_t chunk = 32 * mib;  // what pools have been seen to grow by
constexpr uint32_t frees_between_looks = 64;

struct Pool {
    void* handle = nullptr;  // null: place is free
    OrNone device;           // none: another process's, or the host's
    bool destroyed = false;  // lives on until its last block is freed
    bool leaving = false;    // the driver is destroying it, or refusing to
    uint32_t live = 0;
    uint32_t frees = 0;
    Spread charged = {};
};

Mutex pools_lock;  // guards the array and each pool's charge; never held across an allocation
Mutex trim_lock;   // taken before it: no pool is destroyed while it is trimmed unasked
Pool pools[max_pools];
int pool_places;
uint32_t frees_unseen;  // since pools were last looked at for it

int index_of(void* handle) {
    for (int at = 0; at < pool_places; ++at)
        if (pools[at].handle == handle && !pools[at].destroyed && !pools[at].leaving) return at;
    return -1;
}

int share_of(const Pool& pool) {
    return share_of_device(pool.device);
}

int known_index_of(void* handle) {
    const Guard guard(pools_lock);
    return index_of(handle);
}

// A place's pool, null where there is none of a device's that this process may trim.
void* own_pool(int at, int share) {
    const Guard guard(pools_lock);
    const Pool& pool = pools[at];
    const bool is_there = !pool.destroyed && !pool.leaving;
    return is_there && share_of(pool) == share ? pool.handle : nullptr;
}

int enroll(void* handle, int device) {
    const Guard guard(pools_lock);
    int at = index_of(handle);
    if (at >= 0) return at;
    for (at = 0; at < pool_places && pools[at].handle != nullptr;)
        ++at;
    if (at == max_pools) return -1;
    if (at == pool_places) ++pool_places;
    pools[at] = {.handle = handle, .device = device};
    return at;
}

bool ask(void* pool, int attribute, uint64_t& bytes) {
    return helpers.pool_attribute != nullptr &&
           helpers.pool_attribute(pool, attribute, &bytes) == cuda_success;
}

// Caller holds the lock. `room`: the share that has set bytes aside for what the pool grew by.
void look_at(Pool& pool, int room = -1) {
    if (pool.leaving) return;
    uint64_t now = 0;
    if (pool.destroyed ? pool.live == 0 : ask(pool.handle, pool_reserved_current, now))
        spread(pool.charged, share_of(pool), room, now, DRAWBRIDGE_GAUGE_POOL);
    pool.frees = 0;
    if (pool.destroyed && pool.live == 0) pool = Pool{};
}

void look_at_all() {
    const Guard guard(pools_lock);
    __atomic_store_n(&frees_unseen, 0u, __ATOMIC_RELAXED);
    for (int at = 0; at < pool_places; ++at)
        if (pools[at].handle != nullptr && share_of(pools[at]) >= 0) look_at(pools[at]);
}

void look_at(int at, int32_t more_blocks, int room) {
    const Guard guard(pools_lock);
    pools[at].live += static_cast<uint32_t>(more_blocks);
    look_at(pools[at], room);
}

bool has_room(void* pool, uint64_t bytes) {
    uint64_t reserved = 0;
    uint64_t used = 0;
    return ask(pool, pool_reserved_current, reserved) && ask(pool, pool_used_current, used) &&
           used <= reserved && bytes <= reserved - used;
}

// Whether a block may be taken out of a pool's free part without a reservation: not while the share
// is over its limit, or each call that is refused for it would let the pool grow once more.
bool may_cut(int share, void* pool, uint64_t bytes) {
    if (over_limits(share)) trim_pools(share);
    return !over_limits(share) && has_room(pool, bytes);
}

// The place of a pool that is about to be destroyed, -1 where it is not known.
int take_leave(void* handle) {
    const Guard no_trim(trim_lock);
    const Guard guard(pools_lock);
    const int at = index_of(handle);
    if (at < 0) return -1;
    if (share_of(pools[at]) >= 0) look_at(pools[at]);
    pools[at].leaving = true;
    return at;
}

uint64_t chunks(uint64_t bytes) {
    return bytes > ledger::absurd_bytes ? bytes : (bytes + chunk - 1) / chunk * chunk;
}

// A block from a pool whose free part should hold it needs no reservation. Fragments may make the
// pool grow all the same; if that goes over the limit the block is given back.
template <class Call, class Undo>
int allocate_within(int at, uint64_t bytes, Call call, Undo undo) {
    const int device = pools[at].device;
    const int share = share_of_device(device);
    Reservation made;
    if (!reserve_at_once(device, chunks(bytes), made) && !may_cut(share, pools[at].handle, bytes) &&
        !reserve(device, chunks(bytes), made))
        return cuda_out_of_memory;
    const int status = call_for_memory(share, call);
    const bool granted = status == cuda_success;
    look_at(at, granted ? 1 : 0, made.share);
    if (made.share >= 0 && granted)
        settle(made, 0, DRAWBRIDGE_GAUGE_POOL);
    else
        cancel(made);
    if (!granted || made.share >= 0 || !over_limits(share)) return status;
    undo();
    look_at(at, -1, -1);
    ledger::add(own_slot(share).denied, 1);
    return cuda_out_of_memory;
}

// A pool that is used for the first time and that nobody made is a device's own, of the device of
// the stream or, where the call names it, of any other.
int device_of_pool(void* pool, int stream_device) {
    const auto is_one = [pool](int (*find)(void**, int), int device) {
        void* found = nullptr;
        return find != nullptr && find(&found, device) == cuda_success && found == pool;
    };
    for (int device = 0; process.device_count > 1 && device < process.device_count; ++device)
        if (is_one(helpers.default_pool, device) || is_one(helpers.device_pool, device))
            return device;
    return stream_device;
}

// The pool may be of another device than the stream.
template <class Call, class Undo>
int allocate(void* place, uint64_t bytes, void* pool, int stream_device, Call call, Undo undo) {
    int at = known_index_of(pool);
    const int device = at >= 0 ? int{pools[at].device} : device_of_pool(pool, stream_device);
    const int share = share_of_device(device);
    if (share < 0 || bytes == 0 || pool == nullptr) return call();
    if (at < 0) at = enroll(pool, device);
    const auto key = [place] { return *static_cast<uint64_t*>(place); };
    if (at < 0)
        return make_block(device, ledger::rounded_linear(bytes), Kind::linear, 0, call, key);
    const int status = allocate_within(at, bytes, call, undo);
    if (status == cuda_success)
        keep_block({key(), bytes, static_cast<uint64_t>(at), static_cast<int16_t>(share),
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

// The device whose share a pool is charged to, -1 for none. `location`: CUmemLocation, its type and
// number. Managed memory may be anybody's; where no device is preferred, the current one has it.
int device_of_memory(uint32_t type, const void* location) {
    uint32_t words[2];
    memcpy(words, location, sizeof words);
    const int device = words[0] == location_device ? static_cast<int>(words[1]) : -1;
    if (type != memory_managed) return device;
    const int host = device >= 0 ? device : current_device();
    const int share = share_of_device(host);
    return share >= 0 && (limits_of(share).flags & DRAWBRIDGE_CHARGE_MANAGED) != 0 ? host : -1;
}

// A pool that the program has been told of.
int told(int status, void* pool, uint32_t type, const void* location) {
    if (status == cuda_success && enforcing())
        enroll(*static_cast<void**>(pool), device_of_memory(type, location));
    return status;
}

}  // namespace

void pool_block_freed(const Record& record) {
    const Guard guard(pools_lock);
    Pool& pool = pools[record.owner];
    ledger::add(own_slot(record.share).frees, 1);
    if (pool.live > 0) --pool.live;
    if (++pool.frees >= frees_between_looks || pool.live == 0) look_at(pool);
    __atomic_store_n(&frees_unseen, 1u, __ATOMIC_RELAXED);
}

void pools_synchronized() {
    if (__atomic_load_n(&frees_unseen, __ATOMIC_RELAXED) == 0) return;
    const RelaxedCapture relaxed;
    look_at_all();
}

void refresh_pools() {
    look_at_all();
    refresh_graph_memory();
}

void trim_pools(int first) {
    const RelaxedCapture relaxed;
    auto* trim = real<cuMemPoolTrimTo_function>(entry_cuMemPoolTrimTo);
    for (int at = 0; trim != nullptr && at < pool_places; ++at) {
        const Guard guard(trim_lock);
        void* pool = own_pool(at, first);
        if (pool != nullptr) trim(pool, 0);
    }
    trim_graph_memory(first);
    refresh_pools();
}

void forget_pools() {
    for (Pool& pool : pools)
        pool = Pool{};
    pool_places = 0;
    frees_unseen = 0;
    pools_lock = Mutex{};
    trim_lock = Mutex{};
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
    // CUmemPoolProps: type, handle types, location.
    uint32_t words[4] = {};
    if (poolProps != nullptr) memcpy(words, poolProps, sizeof words);
    return told(function(pool, poolProps), pool, words[0], words + 2);
}

int cuMemGetDefaultMemPool(void* pool_out, void* location, uint32_t type) {
    auto* function = real<cuMemGetDefaultMemPool_function>(entry_cuMemGetDefaultMemPool);
    if (function == nullptr) return cuda_not_initialized;
    return told(function(pool_out, location, type), pool_out, type, location);
}

int cuMemGetMemPool(void* pool, void* location, uint32_t type) {
    auto* function = real<cuMemGetMemPool_function>(entry_cuMemGetMemPool);
    if (function == nullptr) return cuda_not_initialized;
    return told(function(pool, location, type), pool, type, location);
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
    const int at = take_leave(pool);  // its handle may come again as soon as the driver returns
    const int status = function(pool);
    if (at < 0) return status;
    const Guard guard(pools_lock);
    pools[at].leaving = false;
    pools[at].destroyed = status == cuda_success;
    if (share_of(pools[at]) >= 0 || pools[at].destroyed) look_at(pools[at]);
    return status;
}

int cuMemPoolTrimTo(void* pool, uint64_t minBytesToKeep) {
    auto* function = real<cuMemPoolTrimTo_function>(entry_cuMemPoolTrimTo);
    if (function == nullptr) return cuda_not_initialized;
    const int status = function(pool, minBytesToKeep);
    if (!enforcing()) return status;
    const Guard guard(pools_lock);
    const int at = index_of(pool);
    if (at >= 0 && share_of(pools[at]) >= 0) look_at(pools[at]);
    return status;
}
}
