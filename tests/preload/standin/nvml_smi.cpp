// The table of functions that nvidia-smi asks NVML for; NVIDIA documents it as little as those of
// libcuda, but NVIDIA's own mock of NVML (k8s-test-infra, pkg/gpu/mocknvml) has it. Its notes say
// which places nvidia-smi calls, with what, and what it wants to be answered.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/nvml_script.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

using namespace standin;

extern "C" {
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device);
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, void* infos);
}

namespace {

struct Process {
    std::uint32_t pid;
    std::uint64_t used;
    std::uint32_t gpu_instance, compute_instance;
};

/// A process as nvidia-smi lists it: with its name.
struct NamedProcess {
    Process process;
    std::uint64_t protected_bytes;
    char name[4096];
};
static_assert(sizeof(NamedProcess) == 4128);

constexpr std::uintptr_t by_index = 0x22;  // what the handle is asked for by

int handle(std::uintptr_t index, void** device, std::uintptr_t kind) {
    COUNT_CALL("smi table: handle");
    if (kind != by_index || device == nullptr) return invalid_argument;
    return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(index), device);
}

std::string name_of(std::uint32_t pid) {
    std::string name;
    std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/comm"), name);
    return name;
}

int compute_processes(void* device, unsigned* count, NamedProcess* entries) {
    COUNT_CALL("smi table: compute processes");
    static Process found[512];
    unsigned all = std::min(*count, 512u);
    const int status = nvmlDeviceGetComputeRunningProcesses_v3(device, &all, found);
    if (status != 0) return status;
    for (unsigned at = 0; at < all; ++at) {
        entries[at] = {found[at], 0, {}};
        name_of(found[at].pid).copy(entries[at].name, sizeof entries[at].name - 1);
    }
    *count = all;
    return 0;
}

/// Whatever else: nothing is listed for a device, and other calls succeed.
int other(void* device, unsigned* count) {
    COUNT_CALL("smi table: other");
    if (count != nullptr && card_of(device) >= 0) *count = 0;
    return 0;
}

}  // namespace

extern "C" {

int nvmlInternalGetExportTable(const void** table, const unsigned char* id) {
    COUNT_CALL("nvmlInternalGetExportTable");
    static const void* words[256];
    if (table == nullptr || id == nullptr) return invalid_argument;
    if (std::memcmp(id, "\xc4\xfe\x3e\x6c\xc9\x8f\x6c\x4e\xa3\x27\xee\x69\x6e\x12\xf7\xc4", 16) !=
        0)
        return not_supported;
    std::fill(std::begin(words), std::end(words), reinterpret_cast<const void*>(other));
    words[0] = reinterpret_cast<const void*>(sizeof words);
    words[81] = reinterpret_cast<const void*>(handle);
    words[213] = reinterpret_cast<const void*>(compute_processes);
    *table = words;
    return 0;
}
int nvmlDeviceGetIndex(void* device, unsigned* index) {
    COUNT_CALL("nvmlDeviceGetIndex");
    if (const int failure = failure_of(device)) return failure;
    *index = static_cast<unsigned>(card_of(device));
    return 0;
}

int nvmlDeviceIsMigDeviceHandle(void* device, unsigned* is) {
    COUNT_CALL("nvmlDeviceIsMigDeviceHandle");
    *is = instance_of(device).card >= 0;
    return 0;
}

int nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
    COUNT_CALL("nvmlSystemGetProcessName");
    const std::string found = name_of(pid);
    if (found.empty()) return not_found;
    std::snprintf(name, length, "%s", found.c_str());
    return 0;
}
}
