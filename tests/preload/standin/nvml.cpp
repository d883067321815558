// NVML of the stand-in: memory and processes of the cards, pids as the callers' namespace sees
// them.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/nvml_script.hpp"
#include "tests/preload/standin/world.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

using namespace standin;

namespace {

struct Memory {
    std::uint64_t total, free, used;
};
struct MemoryV2 {
    std::uint32_t version;
    std::uint64_t total, reserved, free, used;
};

template <class Info>
int list(const void* handle, std::uint32_t* count, Info* infos) {
    if (const int failure = failure_of(handle)) return failure;
    if (count == nullptr) return invalid_argument;
    sweep();
    const std::uint32_t room = *count;
    *count = 0;
    for (const Holder& one : world().holders) {
        const std::uint64_t bytes = one.blocks[card_of(handle)] + one.overhead[card_of(handle)];
        const std::uint32_t pid = one.taken == 1 && bytes != 0 ? pid_of(one) : 0;
        if (pid == 0) continue;
        if (infos != nullptr && *count < room) {
            std::memset(&infos[*count], 0xff, sizeof(Info));
            infos[*count].pid = pid;
            infos[*count].used = bytes;
        }
        ++*count;
    }
    return *count <= room ? 0 : 7;
}

struct Utilization {
    std::uint32_t pid;
    unsigned long long time_us;
    std::uint32_t sm, memory, encoder, decoder;
};

struct V1 {
    std::uint32_t pid;
    std::uint64_t used;
};
struct V2 {
    std::uint32_t pid;
    std::uint64_t used;
    std::uint32_t gpu_instance, compute_instance;
};

struct Detail {
    std::uint32_t pid;
    std::uint64_t used;
    std::uint32_t gpu_instance, compute_instance;
    std::uint64_t used_protected;
};
struct DetailList {
    std::uint32_t version, mode, count;
    Detail* list;
};
struct SampleList {
    std::uint32_t version, count;
    std::uint64_t since_us;
    void* list;
};
constexpr std::uint32_t version_1 = 1U << 24 | 24;
constexpr int version_mismatch = 25;

std::string uuid_text(void* device) {
    if (const Instance mig = instance_of(device); mig.card >= 0) return mig.uuid;
    unsigned char uuid[16];
    uuid_of(card_of(device), uuid);
    std::string text = "GPU-";
    for (int i = 0; i < 16; ++i) {
        char byte[4];
        std::snprintf(byte, sizeof byte, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                      uuid[i]);
        text += byte;
    }
    return text;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
    COUNT_CALL("nvmlInit_v2");
    return nvml_script().down ? driver_not_loaded : 0;
}

int nvmlInit() {
    return nvmlInit_v2();
}
int nvmlInitWithFlags(unsigned) {
    return nvmlInit_v2();
}

int nvmlShutdown() {
    COUNT_CALL("nvmlShutdown");
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
    COUNT_CALL("nvmlDeviceGetCount_v2");
    if (nvml_script().down) return uninitialized;
    *count = world().devices;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    COUNT_CALL("nvmlDeviceGetHandleByIndex_v2");
    *device = reinterpret_cast<void*>(first_card + static_cast<std::uintptr_t>(index));
    return failure_of(*device);
}

int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
    COUNT_CALL("nvmlDeviceGetUUID");
    if (const int failure = failure_of(device)) return failure;
    const std::string uuid = uuid_text(device);
    if (uuid.size() >= length) return insufficient_size;
    std::memcpy(text, uuid.c_str(), uuid.size() + 1);
    return 0;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
    COUNT_CALL("nvmlDeviceGetHandleByUUID");
    if (nvml_script().down) return uninitialized;
    for (unsigned card = 0; card < world().devices; ++card) {
        *device = reinterpret_cast<void*>(first_card + std::uintptr_t{card});
        if (uuid_text(*device) == uuid) return failure_of(*device);
    }
    return not_found;
}

int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
    COUNT_CALL("nvmlDeviceGetMemoryInfo");
    if (const int failure = failure_of(device)) return failure;
    if (const Instance mig = instance_of(device); mig.card >= 0) {
        *memory = {mig.bytes, mig.bytes, 0};
        return 0;
    }
    const std::uint64_t used = used_on(card_of(device)) + reserved_bytes;
    const std::uint64_t total = world().bytes[card_of(device)] + reserved_bytes;
    *memory = {total, total - used, used};
    return 0;
}

int nvmlDeviceGetMemoryInfo_v2(void* device, MemoryV2* memory) {
    COUNT_CALL("nvmlDeviceGetMemoryInfo_v2");
    if (const int failure = failure_of(device)) return failure;
    const std::uint64_t used = used_on(card_of(device));
    const std::uint64_t total = world().bytes[card_of(device)] + reserved_bytes;
    *memory = {memory->version, total, reserved_bytes, total - reserved_bytes - used, used};
    return 0;
}

int nvmlDeviceGetComputeRunningProcesses(void* device, unsigned* count, V1* infos) {
    COUNT_CALL("nvmlDeviceGetComputeRunningProcesses");
    return list(device, count, infos);
}

int nvmlDeviceGetComputeRunningProcesses_v2(void* device, unsigned* count, V2* infos) {
    COUNT_CALL("nvmlDeviceGetComputeRunningProcesses_v2");
    return list(device, count, infos);
}

int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, V2* infos) {
    COUNT_CALL("nvmlDeviceGetComputeRunningProcesses_v3");
    return list(device, count, infos);
}

int nvmlDeviceGetRunningProcessDetailList(void* device, DetailList* told) {
    COUNT_CALL("nvmlDeviceGetRunningProcessDetailList");
    if (told == nullptr || told->mode > 2) return invalid_argument;
    if (told->version != version_1) return version_mismatch;
    if (told->mode == 0) return list(device, &told->count, told->list);
    told->count = 0;
    return failure_of(device);
}

int nvmlDeviceGetProcessesUtilizationInfo(void* device, SampleList* told) {
    COUNT_CALL("nvmlDeviceGetProcessesUtilizationInfo");
    if (const int failure = failure_of(device)) return failure;
    if (told == nullptr) return invalid_argument;
    if (told->version != version_1) return version_mismatch;
    return not_found;  // seen on driver 580 where nothing ran
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(void* device, unsigned* count, V2*) {
    COUNT_CALL("nvmlDeviceGetGraphicsRunningProcesses_v3");
    if (const int failure = failure_of(device)) return failure;
    *count = 0;
    return 0;
}

int nvmlDeviceGetProcessUtilization(void* device, Utilization* samples, unsigned* count,
                                    unsigned long long since_us) {
    COUNT_CALL("nvmlDeviceGetProcessUtilization");
    if (const int failure = failure_of(device)) return failure;
    if (instance_of(device).card >= 0) return not_supported;
    if (count == nullptr) return invalid_argument;
    const unsigned room = samples == nullptr ? 0 : *count;
    *count = 0;
    const std::uint64_t second = static_cast<std::uint64_t>(time(nullptr)) - 1;  // it lags
    if ((second + 1) * 1000000 <= since_us) return not_found;
    sweep();
    for (const Holder& one : world().holders) {
        const std::uint64_t busy = one.taken == 1 ? busy_in(one, card_of(device), second) : 0;
        const std::uint64_t percent = std::min<std::uint64_t>(busy * 100 / second_ns, 100);
        const std::uint32_t pid = percent == 0 ? 0 : pid_of(one);
        if (pid == 0) continue;
        if (*count < room)
            samples[*count] = {
                pid, (second + 1) * 1000000, static_cast<std::uint32_t>(percent), 0, 0, 0};
        ++*count;
    }
    if (*count == 0) return not_found;
    return *count <= room ? 0 : 7;
}

int nvmlDeviceGetUtilizationRates(void* device, std::uint32_t* rates) {
    COUNT_CALL("nvmlDeviceGetUtilizationRates");
    if (const int failure = failure_of(device)) return failure;
    rates[0] = 100;
    rates[1] = 50;
    return 0;
}

int nvmlDeviceSetComputeMode(void* device, unsigned) {
    COUNT_CALL("nvmlDeviceSetComputeMode");
    return failure_of(device);
}
}
