// NVML of the stand-in: errors, lost cards, MIG, and what a card is.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/nvml_script.hpp"
#include "tests/preload/standin/world.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace standin {

NvmlScript nvml_script() {
    NvmlScript script;
    const char* path = std::getenv("DRAWBRIDGE_STANDIN_NVML");
    std::ifstream file(path == nullptr ? "" : path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string word;
        int card = 0;
        words >> word >> card;
        if (word == "down") script.down = true;
        if (word == "lost") script.lost.insert(card);
        if (word == "fails") words >> script.fails[card];
        if (word == "remap") script.remap.insert(card);
        if (word == "deaf") script.deaf.insert(card);
        if (word == "bare") script.bare.insert(card);
        if (word == "mig") script.mig.insert(card);
        if (word == "xid") {
            unsigned number = 0;
            words >> number;
            script.xids.emplace_back(card, number);
        }
        if (word == "instance") {
            Instance one{.card = card};
            words >> one.gpu_instance >> one.compute_instance >> one.bytes >> one.uuid;
            one.bytes *= mib;
            script.instances.push_back(one);
        }
    }
    return script;
}

Instance instance_of(const void* handle) {
    const auto at = reinterpret_cast<std::uintptr_t>(handle) - first_instance;
    const NvmlScript script = nvml_script();
    return at < script.instances.size() ? script.instances[at] : Instance{.card = -1};
}

int card_of(const void* handle) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    if (value >= first_instance) return instance_of(handle).card;
    const auto card = static_cast<int>(value - first_card);
    return card >= 0 && card < static_cast<int>(world().devices) ? card : -1;
}

int failure_of(const void* handle) {
    const NvmlScript script = nvml_script();
    if (script.down) return uninitialized;
    const int card = card_of(handle);
    if (card < 0) return invalid_argument;
    if (const auto fails = script.fails.find(card); fails != script.fails.end())
        return fails->second;
    return script.lost.contains(card) ? gpu_lost : 0;
}

}  // namespace standin

using namespace standin;

namespace {

struct Pci {
    char legacy_bus_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};

struct EventData {
    void* device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

struct EventSet {
    std::size_t seen = 0;
    std::set<int> cards = {};
};

int put_text(char* text, unsigned length, const std::string& value) {
    if (value.size() >= length) return 7;
    std::memcpy(text, value.c_str(), value.size() + 1);
    return 0;
}

bool is_instance(const void* handle) {
    return reinterpret_cast<std::uintptr_t>(handle) >= first_instance;
}

}  // namespace

extern "C" {

int nvmlSystemGetDriverVersion(char* text, unsigned length) {
    COUNT_CALL("nvmlSystemGetDriverVersion");
    return put_text(text, length, "580.159");
}

const char* nvmlErrorString(int code) {
    COUNT_CALL("nvmlErrorString");
    return code == 0 ? "Success" : "Failure";
}

int nvmlSystemGetCudaDriverVersion_v2(int* version) {
    COUNT_CALL("nvmlSystemGetCudaDriverVersion_v2");
    *version = 13000;
    return 0;
}

int nvmlDeviceGetName(void* device, char* text, unsigned length) {
    COUNT_CALL("nvmlDeviceGetName");
    if (const int failure = failure_of(device)) return failure;
    return put_text(text, length, is_instance(device) ? "NVIDIA H200 MIG" : "NVIDIA H200");
}

int nvmlDeviceGetArchitecture(void* device, unsigned* number) {
    COUNT_CALL("nvmlDeviceGetArchitecture");
    if (const int failure = failure_of(device)) return failure;
    *number = 9;
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
    COUNT_CALL("nvmlDeviceGetCudaComputeCapability");
    if (const int failure = failure_of(device)) return failure;
    *major = 9;
    *minor = 0;
    return 0;
}

int nvmlDeviceGetMinorNumber(void* device, unsigned* minor) {
    COUNT_CALL("nvmlDeviceGetMinorNumber");
    if (const int failure = failure_of(device)) return failure;
    if (nvml_script().bare.contains(card_of(device))) return not_supported;
    *minor = static_cast<unsigned>(card_of(device));
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
    COUNT_CALL("nvmlDeviceGetPciInfo_v3");
    if (const int failure = failure_of(device)) return failure;
    *pci = {};
    pci->bus = 0x10 + static_cast<unsigned>(card_of(device));
    std::snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    return 0;
}

int nvmlDeviceGetRemappedRows(void* device, unsigned* correctable, unsigned* uncorrectable,
                              unsigned* pending, unsigned* failed) {
    COUNT_CALL("nvmlDeviceGetRemappedRows");
    if (const int failure = failure_of(device)) return failure;
    *correctable = *uncorrectable = *failed = 0;
    *pending = nvml_script().remap.contains(card_of(device)) ? 1 : 0;
    return 0;
}

int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
    COUNT_CALL("nvmlDeviceGetMigMode");
    if (const int failure = failure_of(device)) return failure;
    *current = *pending = nvml_script().mig.contains(card_of(device)) ? 1 : 0;
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
    COUNT_CALL("nvmlDeviceGetMaxMigDeviceCount");
    if (const int failure = failure_of(device)) return failure;
    *count = 7;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** mig) {
    COUNT_CALL("nvmlDeviceGetMigDeviceHandleByIndex");
    if (const int failure = failure_of(device)) return failure;
    const NvmlScript script = nvml_script();
    for (std::size_t i = 0; i < script.instances.size(); ++i) {
        if (script.instances[i].card != card_of(device) || index-- != 0) continue;
        *mig = reinterpret_cast<void*>(first_instance + i);
        return 0;
    }
    return not_found;
}

int nvmlDeviceGetGpuInstanceId(void* device, unsigned* id) {
    COUNT_CALL("nvmlDeviceGetGpuInstanceId");
    if (const int failure = failure_of(device)) return failure;
    *id = instance_of(device).gpu_instance;
    return is_instance(device) ? 0 : not_supported;
}

int nvmlDeviceGetComputeInstanceId(void* device, unsigned* id) {
    COUNT_CALL("nvmlDeviceGetComputeInstanceId");
    if (const int failure = failure_of(device)) return failure;
    *id = instance_of(device).compute_instance;
    return is_instance(device) ? 0 : not_supported;
}

int nvmlEventSetCreate(void** set) {
    COUNT_CALL("nvmlEventSetCreate");
    *set = new EventSet{.seen = nvml_script().xids.size()};
    return 0;
}

int nvmlEventSetFree(void* set) {
    COUNT_CALL("nvmlEventSetFree");
    delete static_cast<EventSet*>(set);
    return 0;
}

int nvmlDeviceRegisterEvents(void* device, unsigned long long, void* set) {
    COUNT_CALL("nvmlDeviceRegisterEvents");
    if (const int failure = failure_of(device)) return failure;
    if (nvml_script().deaf.contains(card_of(device))) return not_supported;
    static_cast<EventSet*>(set)->cards.insert(card_of(device));
    return 0;
}

int nvmlEventSetWait_v2(void* set, EventData* data, unsigned) {
    COUNT_CALL("nvmlEventSetWait_v2");
    auto* events = static_cast<EventSet*>(set);
    const NvmlScript script = nvml_script();
    while (events->seen < script.xids.size()) {
        const auto [card, number] = script.xids[events->seen++];
        if (!events->cards.contains(card)) continue;
        *data = {reinterpret_cast<void*>(first_card + static_cast<std::uintptr_t>(card)), 8, number,
                 ~0U, ~0U};
        return 0;
    }
    return timed_out;
}
}
