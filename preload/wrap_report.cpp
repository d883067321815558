// What the driver says of a device's memory, cut to the share. The driver answers first; its
// results are edited only where it succeeded and the caller wants them.
#include "preload/charge.hpp"
#include "preload/os.hpp"
#include "preload/resolve.hpp"
#include "preload/view.hpp"

namespace preload {
namespace {

constexpr uint64_t reap_interval_ns = 100000000;

// Reports follow the living: at most ten times a second the slots of the dead are freed.
void reap_sometimes(Share& share) {
    if (!__atomic_load_n(&share.holds_slot, __ATOMIC_ACQUIRE) ||
        ledger::slots_in_use(*share.view.ledger) < 2)
        return;
    const uint64_t now = monotonic_ns();
    uint64_t before = __atomic_load_n(&share.looked_at, __ATOMIC_RELAXED);
    if (now - before < reap_interval_ns) return;
    if (__atomic_compare_exchange_n(&share.looked_at, &before, now, false, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED) &&
        check_ledger(share))
        reap(share);
}

template <class Word>
void put(void* place, uint64_t value) {
    constexpr Word most = static_cast<Word>(-1);
    if (place != nullptr)
        *static_cast<Word*>(place) = value > most ? most : static_cast<Word>(value);
}

template <class Word, class Call>
int memory_info(void* free, void* total, Call call) {
    const int share = enforcing() ? share_of_device(current_device()) : -1;
    if (share < 0) return call(free, total);
    Word device_free = 0;
    Word device_total = 0;
    const int status = call(&device_free, &device_total);
    if (status != cuda_success) return call(free, total);
    const ledger::Report seen = report_share(share, device_total, device_free);
    put<Word>(free, seen.free);
    put<Word>(total, seen.total);
    return status;
}

template <class Word>
int total_memory(int status, void* bytes, int device) {
    const int share = enforcing() ? share_of_device(device) : -1;
    if (status != cuda_success || bytes == nullptr || share < 0) return status;
    const uint64_t physical = *static_cast<Word*>(bytes);
    put<Word>(bytes, report_share(share, physical, physical).total);
    return status;
}

}  // namespace

ledger::Report report_share(int first, uint64_t device_total, uint64_t device_free) {
    if (enforcing()) refresh_pools();
    ledger::Limits sum;
    uint64_t used = 0;
    for (int share = first; share >= 0; share = process.shares[share].next) {
        reap_sometimes(process.shares[share]);
        const uint64_t limit = limits_of(share).memory_bytes;
        sum.memory_bytes =
            sum.memory_bytes + limit < limit ? DRAWBRIDGE_UNLIMITED : sum.memory_bytes + limit;
        used = ledger::saturating(used, ledger::usage(process.shares[share].view));
    }
    return ledger::report(sum, used, device_total, device_free);
}

}  // namespace preload

using namespace preload;

extern "C" {

int cuMemGetInfo(void* free, void* total) {
    auto* function = real<cuMemGetInfo_function>(entry_cuMemGetInfo);
    if (function == nullptr) return cuda_not_initialized;
    return memory_info<uint32_t>(free, total, function);
}

int cuMemGetInfo_v2(void* free, void* total) {
    auto* function = real<cuMemGetInfo_v2_function>(entry_cuMemGetInfo_v2);
    if (function == nullptr) return cuda_not_initialized;
    return memory_info<uint64_t>(free, total, function);
}

int cuDeviceTotalMem(void* bytes, int dev) {
    auto* function = real<cuDeviceTotalMem_function>(entry_cuDeviceTotalMem);
    return function == nullptr ? cuda_not_initialized
                               : total_memory<uint32_t>(function(bytes, dev), bytes, dev);
}

int cuDeviceTotalMem_v2(void* bytes, int dev) {
    auto* function = real<cuDeviceTotalMem_v2_function>(entry_cuDeviceTotalMem_v2);
    return function == nullptr ? cuda_not_initialized
                               : total_memory<uint64_t>(function(bytes, dev), bytes, dev);
}
}
