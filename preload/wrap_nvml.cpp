// NVML inside the container: the share's memory, its own processes, its own utilisation. A process
// that only looks (nvidia-smi) holds no slot and reads the same ledger.
#include "preload/charge.hpp"
#include "preload/os.hpp"
#include "preload/resolve.hpp"
#include "preload/view.hpp"

#include <string.h>
#include <time.h>

namespace preload {
namespace {

// nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_t (v2 and v3),
// nvmlProcessDetail_v1_t, nvmlUtilization_t, nvmlProcessUtilizationSample_t,
// nvmlProcessUtilizationInfo_v1_t.
struct Memory {
    uint64_t total, free, used;
};
struct MemoryV2 {
    uint32_t version;
    uint64_t total, reserved, free, used;
};
struct ProcessV1 {
    uint32_t pid;
    uint64_t used;
};
struct ProcessV2 {
    uint32_t pid;
    uint64_t used;
    uint32_t gpu_instance, compute_instance;
};
struct Detail {
    uint32_t pid;
    uint64_t used;
    uint32_t gpu_instance, compute_instance;
    uint64_t used_protected;
};
struct Rates {
    uint32_t gpu, memory;
};
struct Sample {
    uint32_t pid;
    uint64_t time_us;
    uint32_t sm, memory, encoder, decoder;
};
struct SampleInfo {
    uint64_t time_us;
    uint32_t pid, sm, memory, encoder, decoder, jpeg, flow;
};
// nvmlProcessDetailList_v1_t and nvmlProcessesUtilizationInfo_v1_t: the caller's list, and its
// length.
struct DetailList {
    uint32_t version, mode, count;
    Detail* list;
};
struct SampleList {
    uint32_t version, count;
    uint64_t since_us;
    SampleInfo* list;
};
static_assert(sizeof(Detail) == 32 && sizeof(SampleInfo) == 40 && sizeof(DetailList) == 24 &&
              sizeof(SampleList) == 24);
static_assert(sizeof(MemoryV2) == 40 && sizeof(ProcessV1) == 16 && sizeof(ProcessV2) == 24 &&
              sizeof(Sample) == 32);

Table handles;  // of devices that have a share

int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// "GPU-8-4-4-4-12" or "MIG-..." to 16 bytes.
bool parse_uuid(const char* text, uint8_t (&uuid)[16]) {
    const char* at = strchr(text, '-');
    int digits = 0;
    for (; at != nullptr && *at != '\0' && digits < 32; ++at) {
        const int digit = hex(*at);
        if (digit < 0) continue;
        uuid[digits / 2] = static_cast<uint8_t>(uuid[digits / 2] << 4 | digit);
        ++digits;
    }
    return digits == 32;
}

int ask_share(void* device) {
    char text[96] = {};
    uint8_t uuid[16] = {};
    if (helpers.nvml_uuid == nullptr ||
        helpers.nvml_uuid(device, text, sizeof text) != nvml_success)
        return -1;
    return parse_uuid(text, uuid) ? share_of_uuid(uuid) : -1;
}

// The first share of a device, -1 where it has none or nothing is enforced here.
int share_of_handle(void* device) {
    const Mode mode = load_shares();
    if (mode != Mode::ready && mode != Mode::enforcing) return -1;
    Record known;
    const auto key = reinterpret_cast<uint64_t>(device);
    if (handles.find(key, known)) return known.share;
    const int share = ask_share(device);
    if (share >= 0) handles.insert({key, 0, 0, static_cast<int16_t>(share)});
    return share;
}

// Runs `each(slot index)` for the live slots of processes that this one can name.
template <class Each>
void each_process(int share, Each each) {
    const drawbridge_ledger& book = *process.shares[share].view.ledger;
    const uint64_t names = pid_namespace();
    for (uint32_t slot = 0; slot < ledger::slots_in_use(book); ++slot)
        if (ledger::load(book.slot[slot].state) == DRAWBRIDGE_SLOT_LIVE &&
            book.slot[slot].pid_namespace == names)
            each(slot);
}

// What a slot's process holds of a device, with its slots in the shares that come after.
uint64_t bytes_of(int share, uint32_t slot) {
    const drawbridge_slot& owner = process.shares[share].view.ledger->slot[slot];
    uint64_t bytes = ledger::held(process.shares[share].view, slot);
    for (int next = process.shares[share].next; next >= 0; next = process.shares[next].next)
        each_process(next, [&](uint32_t other) {
            const ledger::View& view = process.shares[next].view;
            const drawbridge_slot& one = view.ledger->slot[other];
            if (one.pid == owner.pid && one.start_time == owner.start_time)
                bytes = ledger::saturating(bytes, ledger::held(view, other));
        });
    return bytes;
}

void fill(ProcessV1& entry, uint32_t pid, uint64_t bytes) {
    entry = {pid, bytes};
}
void fill(ProcessV2& entry, uint32_t pid, uint64_t bytes) {
    entry = {pid, bytes, UINT32_MAX, UINT32_MAX};
}
void fill(Detail& entry, uint32_t pid, uint64_t bytes) {
    entry = {pid, bytes, UINT32_MAX, UINT32_MAX, UINT64_MAX};
}

// The two-call protocol: too little room answers the needed count.
template <class Info>
int list_processes(int share, uint32_t* count, void* infos) {
    uint32_t found = 0;
    auto* out = static_cast<Info*>(infos);
    each_process(share, [&](uint32_t slot) {
        if (out != nullptr && found < *count)
            fill(out[found], process.shares[share].view.ledger->slot[slot].pid,
                 bytes_of(share, slot));
        ++found;
    });
    const bool room = found <= *count && (found == 0 || out != nullptr);
    *count = found;
    return room ? nvml_success : nvml_insufficient_size;
}

template <class Info, class Call>
int processes(void* device, void* infoCount, void* infos, bool compute, Call call) {
    const int share = share_of_handle(device);
    uint32_t none = 0;
    if (share < 0 || infoCount == nullptr) return call(device, infoCount, infos);
    const int status = call(device, &none, nullptr);
    if (status != nvml_success && status != nvml_insufficient_size) return status;
    auto* count = static_cast<uint32_t*>(infoCount);
    if (compute) return list_processes<Info>(share, count, infos);
    *count = 0;
    return nvml_success;
}

uint32_t own_permille(int share) {
    uint32_t sum = 0;
    const ledger::View& view = process.shares[share].view;
    for (uint32_t slot = 0; slot < ledger::slots_in_use(*view.ledger); ++slot)
        if (ledger::load(view.ledger->slot[slot].state) == DRAWBRIDGE_SLOT_LIVE)
            sum += view.limits->util_permille[slot];
    return sum < 1000 ? sum : 1000;
}

uint64_t wall_us() {
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<uint64_t>(now.tv_sec) * 1000000u +
           static_cast<uint64_t>(now.tv_nsec) / 1000u;
}

void fill(Sample& entry, uint32_t pid, uint64_t time_us, uint32_t rate) {
    entry = {pid, time_us, rate, 0, 0, 0};
}
void fill(SampleInfo& entry, uint32_t pid, uint64_t time_us, uint32_t rate) {
    entry = {time_us, pid, rate, 0, 0, 0, 0, 0};
}

template <class Entry>
int samples(int share, Entry* out, uint32_t* count) {
    uint32_t found = 0;
    const ledger::View& view = process.shares[share].view;
    const uint64_t now = wall_us();
    each_process(share, [&](uint32_t slot) {
        const uint32_t rate = view.limits->util_permille[slot];
        if (rate == 0) return;
        if (out != nullptr && found < *count)
            fill(out[found], view.ledger->slot[slot].pid, now, (rate + 5) / 10);
        ++found;
    });
    const bool room = found <= *count && out != nullptr;
    *count = found;
    if (found == 0) return nvml_not_found;
    return room ? nvml_success : nvml_insufficient_size;
}

}  // namespace

void forget_handles() {
    handles.forget();
}

namespace {

// NVML's answer to a list without room tells whether it takes its kind and its version.
int list_details(void* device, void* place, nvmlDeviceGetRunningProcessDetailList_function ask) {
    const int share = place != nullptr ? share_of_handle(device) : -1;
    if (share < 0) return ask(device, place);
    auto& list = *static_cast<DetailList*>(place);
    DetailList none = {list.version, list.mode, 0, nullptr};
    const int status = ask(device, &none);
    if (status != nvml_success && status != nvml_insufficient_size) return status;
    if (list.mode == 0) return list_processes<Detail>(share, &list.count, list.list);
    list.count = 0;  // processes of graphics, of MPS
    return nvml_success;
}

int list_samples(void* device, void* place, nvmlDeviceGetProcessesUtilizationInfo_function ask) {
    const int share = place != nullptr ? share_of_handle(device) : -1;
    if (share < 0) return ask(device, place);
    auto& list = *static_cast<SampleList*>(place);
    SampleList none = {list.version, 0, list.since_us, nullptr};
    const int status = ask(device, &none);
    if (status != nvml_success && status != nvml_insufficient_size && status != nvml_not_found)
        return status;
    return samples(share, list.list, &list.count);
}

}  // namespace

bool setting_refused() {
    const Mode mode = load_shares();
    if (mode == Mode::refused) return true;
    for (int share = 0; share < process.share_count; ++share)
        if ((limits_of(share).flags & DRAWBRIDGE_DENY_SETTINGS) != 0) return true;
    return false;
}

}  // namespace preload

using namespace preload;

#define DRAWBRIDGE_PROCESSES(name, info, compute)                            \
    int name(void* device, void* infoCount, void* infos) {                   \
        auto* function = real<name##_function>(entry_##name);                \
        if (function == nullptr) return nvml_function_not_found;             \
        return processes<info>(device, infoCount, infos, compute, function); \
    }

extern "C" {

int nvmlDeviceGetMemoryInfo(void* device, void* memory) {
    auto* function = real<nvmlDeviceGetMemoryInfo_function>(entry_nvmlDeviceGetMemoryInfo);
    if (function == nullptr) return nvml_function_not_found;
    const int status = function(device, memory);
    const int share = status == nvml_success && memory != nullptr ? share_of_handle(device) : -1;
    if (share < 0) return status;
    auto& info = *static_cast<Memory*>(memory);
    const ledger::Report seen = report_share(share, info.total, info.free);
    info = {seen.total, seen.total - seen.used, seen.used};
    return status;
}

int nvmlDeviceGetMemoryInfo_v2(void* device, void* memory) {
    auto* function = real<nvmlDeviceGetMemoryInfo_v2_function>(entry_nvmlDeviceGetMemoryInfo_v2);
    if (function == nullptr) return nvml_function_not_found;
    const int status = function(device, memory);
    const int share = status == nvml_success && memory != nullptr ? share_of_handle(device) : -1;
    if (share < 0) return status;
    auto& info = *static_cast<MemoryV2*>(memory);
    const ledger::Report seen = report_share(share, info.total, info.free);
    info = {info.version, seen.total, 0, seen.total - seen.used, seen.used};
    return status;
}

DRAWBRIDGE_PROCESSES(nvmlDeviceGetComputeRunningProcesses, ProcessV1, true)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, ProcessV2, true)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, ProcessV2, true)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses, ProcessV1, false)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, ProcessV2, false)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, ProcessV2, false)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses, ProcessV1, false)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, ProcessV2, false)
DRAWBRIDGE_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, ProcessV2, false)

int nvmlDeviceGetUtilizationRates(void* device, void* utilization) {
    auto* function =
        real<nvmlDeviceGetUtilizationRates_function>(entry_nvmlDeviceGetUtilizationRates);
    if (function == nullptr) return nvml_function_not_found;
    const int status = function(device, utilization);
    const int share =
        status == nvml_success && utilization != nullptr ? share_of_handle(device) : -1;
    if (share < 0) return status;
    const ledger::Limits& limits = limits_of(share);
    if ((limits.flags & DRAWBRIDGE_UTILIZATION_DEVICE) != 0) return status;
    uint32_t permille = own_permille(share);
    if ((limits.flags & DRAWBRIDGE_UTILIZATION_SCALED) != 0 && limits.core_permille != 0)
        permille = permille * 1000 / limits.core_permille;
    auto& rates = *static_cast<Rates*>(utilization);
    rates.gpu = permille >= 1000 ? 100 : (permille + 5) / 10;
    return status;
}

int nvmlDeviceGetProcessUtilization(void* device, void* utilization, void* processSamplesCount,
                                    uint64_t lastSeenTimeStamp) {
    auto* function =
        real<nvmlDeviceGetProcessUtilization_function>(entry_nvmlDeviceGetProcessUtilization);
    if (function == nullptr) return nvml_function_not_found;
    const int share = processSamplesCount != nullptr ? share_of_handle(device) : -1;
    if (share < 0) return function(device, utilization, processSamplesCount, lastSeenTimeStamp);
    return samples(share, static_cast<Sample*>(utilization),
                   static_cast<uint32_t*>(processSamplesCount));
}

int nvmlDeviceGetProcessesUtilizationInfo(void* device, void* procesesUtilInfo) {
    auto* function = real<nvmlDeviceGetProcessesUtilizationInfo_function>(
        entry_nvmlDeviceGetProcessesUtilizationInfo);
    return function == nullptr ? nvml_function_not_found
                               : list_samples(device, procesesUtilInfo, function);
}

int nvmlDeviceGetRunningProcessDetailList(void* device, void* plist) {
    auto* function = real<nvmlDeviceGetRunningProcessDetailList_function>(
        entry_nvmlDeviceGetRunningProcessDetailList);
    return function == nullptr ? nvml_function_not_found : list_details(device, plist, function);
}
}
