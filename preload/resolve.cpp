#include "preload/resolve.hpp"

#include "preload/os.hpp"
#include "preload/place.hpp"
#include "preload/real_libc.hpp"

#include <dlfcn.h>

namespace preload {

void* entry_reals[entry_count];
Helpers helpers;

namespace {

bool cuda_known;
bool nvml_known;
// Set before cuda_known.
void* front;
void* behind;

uint32_t hash_of(const char* name) {
    uint32_t value = entry_hash_seed;
    for (; *name != '\0'; ++name)
        value = (value ^ static_cast<unsigned char>(*name)) * 16777619u;
    return value ^ value >> 15;
}

template <class Function>
void find(void* library, const char* name, Function& place) {
    place = reinterpret_cast<Function>(libc().dlsym(library, name));
}

void find_helpers(void* library) {
    Helpers& h = helpers;
    find(library, "cuDriverGetVersion", h.driver_version);
    find(library, "cuDeviceGetCount", h.device_count);
    find(library, "cuDeviceGetUuid_v2", h.device_uuid);
    if (h.device_uuid == nullptr) find(library, "cuDeviceGetUuid", h.device_uuid);
    find(library, "cuDeviceGetAttribute", h.device_attribute);
    find(library, "cuCtxGetCurrent", h.context_current);
    find(library, "cuCtxPushCurrent_v2", h.context_push);
    find(library, "cuCtxPopCurrent_v2", h.context_pop);
    find(library, "cuCtxGetDevice", h.context_device);
    find(library, "cuCtxGetLimit", h.context_limit);
    find(library, "cuDevicePrimaryCtxGetState", h.primary_state);
    find(library, "cuStreamIsCapturing", h.stream_capturing);
    find(library, "cuStreamIsCapturing_ptsz", h.stream_capturing_ptsz);
    find(library, "cuStreamGetCtx", h.stream_context);
    find(library, "cuThreadExchangeStreamCaptureMode", h.exchange_capture_mode);
    find(library, "cuEventCreate", h.event_create);
    find(library, "cuEventRecord", h.event_record);
    find(library, "cuEventRecord_ptsz", h.event_record_ptsz);
    find(library, "cuEventQuery", h.event_query);
    find(library, "cuEventElapsedTime", h.event_elapsed);
    find(library, "cuDeviceGetMemPool", h.device_pool);
    find(library, "cuDeviceGetDefaultMemPool", h.default_pool);
    find(library, "cuMemPoolGetAttribute", h.pool_attribute);
    find(library, "cuDeviceGetGraphMemAttribute", h.graph_attribute);
    find(library, "cuGraphGetNodes", h.graph_nodes);
    find(library, "cuGraphNodeGetType", h.node_type);
    find(library, "cuGraphChildGraphNodeGetGraph", h.child_graph);
    find(library, "cuGraphMemAllocNodeGetParams", h.alloc_node);
}

void* open_nvml(bool load) {
    return libc().dlopen("libnvidia-ml.so.1", load ? RTLD_LAZY : RTLD_LAZY | RTLD_NOLOAD);
}

// A front defines every wrapped name; what the driver behind it lacks is not there all the same.
void* find_real(void* library, int entry) {
    void* found = libc().dlsym(library, entry_names[entry]);
    if (found == entry_wrappers[entry]) return nullptr;  // the file is a link to ourselves
    if (entry < first_nvml_entry && behind != nullptr &&
        libc().dlsym(behind, entry_names[entry]) == nullptr)
        return nullptr;
    return found;
}

void find_cuda(void* library) {
    behind = driver_behind(library);
    front = behind == nullptr ? nullptr : library;
    find_helpers(library);
}

void find_nvml(void* library) {
    find(library, "nvmlDeviceGetUUID", helpers.nvml_uuid);
}

// The part of the table that one library has.
struct Part {
    int first;
    int last;
    void* (*open)(bool load);
    void (*find_more)(void* library);
    bool& known;
};

// No lock: opening and looking up twice gives the same answers, and a lock held across dlopen would
// deadlock with a thread that holds the loader's lock and asks us.
bool resolve(const Part& part, bool load) {
    if (__atomic_load_n(&part.known, __ATOMIC_ACQUIRE)) return true;
    if (resolving()) return false;
    const KeepErrno keep;
    resolving() = true;
    void* library = part.open(load);
    if (library != nullptr) {
        part.find_more(library);
        for (int entry = part.first; entry < part.last; ++entry)
            __atomic_store_n(&entry_reals[entry], find_real(library, entry), __ATOMIC_RELEASE);
        __atomic_store_n(&part.known, true, __ATOMIC_RELEASE);
    } else {
        libc().dlerror();  // the failure is ours, not the caller's
    }
    resolving() = false;
    return library != nullptr;
}

}  // namespace

int entry_of_name(const char* name) {
    if (!(name[0] == 'c' && name[1] == 'u') && name[0] != 'n') return -1;
    for (uint32_t place = hash_of(name) & entry_hash_mask;; place = (place + 1) & entry_hash_mask) {
        const int entry = entry_hash_places[place];
        if (entry < 0 || same_text(entry_names[entry], name)) return entry;
    }
}

int entry_of_address(const void* address) {
    for (int entry = 0; address != nullptr && entry < entry_count; ++entry)
        if (entry_reals[entry] == address) return entry;
    return -1;
}

bool resolve_cuda(bool load) {
    return resolve({0, first_nvml_entry, &open_cuda, &find_cuda, cuda_known}, load);
}

bool resolve_nvml(bool load) {
    return resolve({first_nvml_entry, entry_count, &open_nvml, &find_nvml, nvml_known}, load);
}

void* held_behind() {
    return behind;
}

bool is_of_front_alone(int entry, const void* address) {
    return front != nullptr && entry_reals[entry] == nullptr &&
           libc().dlsym(front, entry_names[entry]) == address;
}

}  // namespace preload
