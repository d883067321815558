#include "agent/nvml/nvml_library.hpp"

#include "agent/device/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <dlfcn.h>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::Result;

constexpr std::size_t text_bytes = 128;
constexpr unsigned most_mig_devices = 16;
constexpr std::uint64_t critical_xid_event = 8;
constexpr unsigned most_events = 1024;

/// nvmlMemory_t
struct Memory {
    std::uint64_t total;
    std::uint64_t free;
    std::uint64_t used;
};

/// nvmlPciInfo_t since its third version
struct Pci {
    char legacy_bus_id[16];
    unsigned domain;
    unsigned bus;
    unsigned device;
    unsigned device_id;
    unsigned subsystem_id;
    char bus_id[32];
};

/// nvmlEventData_t since its second version
struct EventData {
    void* device;
    std::uint64_t type;
    std::uint64_t data;
    unsigned gpu_instance;
    unsigned compute_instance;
};

/// nvmlProcessInfo_t since its second version
struct ProcessInfo {
    unsigned pid;
    std::uint64_t used;
    unsigned gpu_instance;
    unsigned compute_instance;
};

/// nvmlProcessUtilizationSample_t
struct UtilizationSample {
    unsigned pid;
    unsigned long long time_us;
    unsigned sm_percent;
    unsigned memory_percent;
    unsigned encoder_percent;
    unsigned decoder_percent;
};

constexpr unsigned first_processes = 64;
constexpr unsigned most_processes = 1U << 16U;
constexpr int insufficient_size = 7;
constexpr std::uint64_t not_available = UINT64_MAX;

/// nvmlDeviceArchitecture_t
constexpr std::array<std::string_view, 11> architectures = {
    "",       "",       "Kepler", "Maxwell", "Pascal",   "Volta",
    "Turing", "Ampere", "Ada",    "Hopper",  "Blackwell"};

}  // namespace

template <class Function>
Function NvmlLibrary::find(const char* name) const {
    return reinterpret_cast<Function>(::dlsym(library_, name));
}

template <class... Arguments>
NvmlCode NvmlLibrary::call(const char* name, Arguments... arguments) const {
    using Function = int (*)(Arguments...);
    const auto function = find<Function>(name);
    if (function == nullptr) return NvmlCode::not_supported;
    return static_cast<NvmlCode>(function(arguments...));
}

Result<std::unique_ptr<NvmlLibrary>> NvmlLibrary::open(const std::vector<std::string>& paths) {
    std::string reasons;
    std::unique_ptr<NvmlLibrary> opened(new NvmlLibrary());
    for (const std::string& path : paths) {
        opened->library_ = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (opened->library_ != nullptr) break;
        reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", ::dlerror());
    }
    if (opened->library_ == nullptr)
        return base::fail(ErrorKind::unavailable, "NVML cannot be opened: " + reasons);
    const NvmlCode code = opened->call("nvmlInit_v2");
    if (code != NvmlCode::success) {
        return base::fail(ErrorKind::unavailable,
                          fmt::format("NVML does not start: code {}", static_cast<int>(code)));
    }
    opened->initialised_ = true;
    return opened;
}

NvmlLibrary::~NvmlLibrary() {
    if (event_set_ != nullptr) static_cast<void>(call("nvmlEventSetFree", event_set_));
    if (initialised_) static_cast<void>(call("nvmlShutdown"));
    if (library_ != nullptr) ::dlclose(library_);
}

std::string NvmlLibrary::driver_version() const {
    char version[text_bytes] = "";
    const NvmlCode code = call("nvmlSystemGetDriverVersion", static_cast<char*>(version),
                               static_cast<unsigned>(sizeof version));
    return code == NvmlCode::success ? version : "";
}

std::string NvmlLibrary::cuda_version() const {
    int version = 0;
    if (call("nvmlSystemGetCudaDriverVersion_v2", &version) != NvmlCode::success) return {};
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Result<unsigned> NvmlLibrary::device_count() const {
    unsigned count = 0;
    const NvmlCode code = call("nvmlDeviceGetCount_v2", &count);
    if (code == NvmlCode::success) return count;
    return base::fail(ErrorKind::unavailable,
                      fmt::format("NVML does not count devices: code {}", static_cast<int>(code)));
}

NvmlCode NvmlLibrary::device(unsigned index, NvmlHandle& handle) const {
    return call("nvmlDeviceGetHandleByIndex_v2", index, &handle);
}

NvmlCode NvmlLibrary::mig_mode(NvmlHandle card, bool& enabled) const {
    unsigned current = 0;
    unsigned pending = 0;
    const NvmlCode code = call("nvmlDeviceGetMigMode", card, &current, &pending);
    enabled = code == NvmlCode::success && current == 1;
    return code == NvmlCode::not_supported ? NvmlCode::success : code;
}

NvmlCode NvmlLibrary::mig_devices(NvmlHandle card, std::vector<NvmlHandle>& found) const {
    for (unsigned i = 0; i < most_mig_devices; ++i) {
        NvmlHandle mig = nullptr;
        const NvmlCode code = call("nvmlDeviceGetMigDeviceHandleByIndex", card, i, &mig);
        if (code == NvmlCode::success)
            found.push_back(mig);
        else if (!is_of_nothing(code))
            return code;
    }
    return NvmlCode::success;
}

NvmlCode NvmlLibrary::uuid(NvmlHandle device, std::string& text) const {
    char read[text_bytes] = "";
    const NvmlCode code = call("nvmlDeviceGetUUID", device, static_cast<char*>(read),
                               static_cast<unsigned>(sizeof read));
    read[sizeof read - 1] = '\0';
    text = read;
    return code;
}

std::string NvmlLibrary::text(const char* name, NvmlHandle device) const {
    char read[text_bytes] = "";
    const NvmlCode code =
        call(name, device, static_cast<char*>(read), static_cast<unsigned>(sizeof read));
    read[sizeof read - 1] = '\0';
    return code == NvmlCode::success ? read : "";
}

std::string NvmlLibrary::name(NvmlHandle device) const {
    return text("nvmlDeviceGetName", device);
}

std::string NvmlLibrary::architecture(NvmlHandle device) const {
    unsigned number = 0;
    if (call("nvmlDeviceGetArchitecture", device, &number) != NvmlCode::success) return {};
    return number < architectures.size() ? std::string(architectures[number]) : std::string();
}

std::string NvmlLibrary::compute_capability(NvmlHandle device) const {
    int major = 0;
    int minor = 0;
    const NvmlCode code = call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
    return code == NvmlCode::success ? fmt::format("{}.{}", major, minor) : "";
}

std::string NvmlLibrary::pci_bus_id(NvmlHandle device) const {
    Pci pci{};
    if (call("nvmlDeviceGetPciInfo_v3", device, &pci) != NvmlCode::success) return {};
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    return normal_bus_id(static_cast<const char*>(pci.bus_id));
}

std::optional<unsigned> NvmlLibrary::minor(NvmlHandle device) const {
    unsigned number = 0;
    if (call("nvmlDeviceGetMinorNumber", device, &number) != NvmlCode::success) return std::nullopt;
    return number;
}

NvmlCode NvmlLibrary::total_memory(NvmlHandle device, std::uint64_t& bytes) const {
    Memory memory{};
    const NvmlCode code = call("nvmlDeviceGetMemoryInfo", device, &memory);
    bytes = memory.total;
    return code;
}

bool NvmlLibrary::has_pending_remap(NvmlHandle device) const {
    unsigned correctable = 0;
    unsigned uncorrectable = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    return call("nvmlDeviceGetRemappedRows", device, &correctable, &uncorrectable, &pending,
                &failed) == NvmlCode::success &&
           (pending != 0 || failed != 0);
}

NvmlCode NvmlLibrary::instance_ids(NvmlHandle mig, std::pair<unsigned, unsigned>& ids) const {
    const NvmlCode code = call("nvmlDeviceGetGpuInstanceId", mig, &ids.first);
    if (code != NvmlCode::success) return code;
    return call("nvmlDeviceGetComputeInstanceId", mig, &ids.second);
}

std::vector<NvmlProcess> NvmlLibrary::processes(NvmlHandle device) const {
    std::vector<ProcessInfo> room(first_processes);
    auto count = static_cast<unsigned>(room.size());
    NvmlCode code = NvmlCode::success;
    const auto ask = [&](const char* name) {
        count = static_cast<unsigned>(room.size());
        return call(name, device, &count, room.data());
    };
    while (true) {
        code = ask("nvmlDeviceGetComputeRunningProcesses_v3");
        if (code == NvmlCode::not_supported) code = ask("nvmlDeviceGetComputeRunningProcesses_v2");
        if (static_cast<int>(code) != insufficient_size || room.size() > most_processes) break;
        room.resize(room.size() * 2);
    }
    std::vector<NvmlProcess> found;
    for (unsigned i = 0; code == NvmlCode::success && i < count; ++i) {
        if (room[i].used != not_available) found.push_back({room[i].pid, room[i].used});
    }
    return found;
}

NvmlCode NvmlLibrary::uses(NvmlHandle device, std::uint64_t since_us,
                           std::vector<NvmlUse>& found) const {
    std::vector<UtilizationSample> room(first_processes);
    unsigned count = 0;
    NvmlCode code = NvmlCode::success;
    while (true) {
        count = static_cast<unsigned>(room.size());
        code = call("nvmlDeviceGetProcessUtilization", device, room.data(), &count,
                    static_cast<unsigned long long>(since_us));
        if (static_cast<int>(code) != insufficient_size || room.size() > most_processes) break;
        room.resize(room.size() * 2);
    }
    found.clear();
    if (code == NvmlCode::not_found) return NvmlCode::success;
    for (unsigned i = 0; code == NvmlCode::success && i < std::min<std::size_t>(count, room.size());
         ++i) {
        // Drivers leave noise in entries that they did not fill.
        if (room[i].pid != 0 && room[i].sm_percent <= 100)
            found.push_back({room[i].pid, room[i].time_us, room[i].sm_percent});
    }
    return code;
}

bool NvmlLibrary::watch(NvmlHandle device) {
    if (event_set_ == nullptr && call("nvmlEventSetCreate", &event_set_) != NvmlCode::success) {
        event_set_ = nullptr;
        return false;
    }
    return call("nvmlDeviceRegisterEvents", device, critical_xid_event, event_set_) ==
           NvmlCode::success;
}

std::vector<NvmlEvent> NvmlLibrary::events() {
    std::vector<NvmlEvent> found;
    while (event_set_ != nullptr && found.size() < most_events) {
        EventData data{};
        const unsigned wait_ms = 0;
        if (call("nvmlEventSetWait_v2", event_set_, &data, wait_ms) != NvmlCode::success) break;
        if (data.type == critical_xid_event)
            found.push_back({data.device, static_cast<std::int64_t>(data.data & 0xFFFFU)});
    }
    return found;
}

}  // namespace drawbridge::agent
