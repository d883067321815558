#include "preload/resolve.hpp"

#include "preload/os.hpp"
#include "preload/real_libc.hpp"

#include <dlfcn.h>
#include <string.h>

namespace preload {

void* entry_reals[entry_count];
Helpers helpers;

namespace {

bool cuda_known;
bool nvml_known;

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
    find(library, "cuMemPoolGetAttribute", h.pool_attribute);
    find(library, "cuDeviceGetGraphMemAttribute", h.graph_attribute);
    find(library, "cuGraphGetNodes", h.graph_nodes);
    find(library, "cuGraphNodeGetType", h.node_type);
    find(library, "cuGraphChildGraphNodeGetGraph", h.child_graph);
    find(library, "cuGraphMemAllocNodeGetParams", h.alloc_node);
}

// No lock: opening and looking up twice gives the same answers, and a lock held across dlopen would
// deadlock with a thread that holds the loader's lock and asks us.
bool resolve(const char* soname, bool load, int first, int last, bool& known) {
    if (__atomic_load_n(&known, __ATOMIC_ACQUIRE)) return true;
    if (resolving()) return false;
    const KeepErrno keep;
    resolving() = true;
    void* library = libc().dlopen(soname, load ? RTLD_LAZY : RTLD_LAZY | RTLD_NOLOAD);
    if (library != nullptr) {
        if (first == 0)
            find_helpers(library);
        else
            find(library, "nvmlDeviceGetUUID", helpers.nvml_uuid);
        for (int entry = first; entry < last; ++entry) {
            void* found = libc().dlsym(library, entry_names[entry]);
            if (found == entry_wrappers[entry]) found = nullptr;  // the file is a link to ourselves
            __atomic_store_n(&entry_reals[entry], found, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&known, true, __ATOMIC_RELEASE);
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
        if (entry < 0 || strcmp(entry_names[entry], name) == 0) return entry;
    }
}

int entry_of_address(const void* address) {
    for (int entry = 0; address != nullptr && entry < entry_count; ++entry)
        if (entry_reals[entry] == address) return entry;
    return -1;
}

bool resolve_cuda(bool load) {
    return resolve("libcuda.so.1", load, 0, first_nvml_entry, cuda_known);
}

bool resolve_nvml(bool load) {
    return resolve("libnvidia-ml.so.1", load, first_nvml_entry, entry_count, nvml_known);
}

}  // namespace preload
