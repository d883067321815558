// How a program gets at driver functions by name: dlsym, dlvsym, cuGetProcAddress. A wrapper is
// handed out if and only if the real answer is the function that it wraps (enforcement: pointer
// identity); versions, flags and what the driver lacks stay the driver's own.
#include "preload/process.hpp"
#include "preload/real_libc.hpp"
#include "preload/resolve.hpp"

#include <dlfcn.h>

namespace {

using namespace preload;

void* const answer_null = reinterpret_cast<void*>(1);

bool resolve_for(int entry, bool load) {
    return entry < first_nvml_entry ? resolve_cuda(load) : resolve_nvml(load);
}

void* answer_missing(const char* name) {
    void* driver = held_behind();
    libc().dlsym(driver != nullptr ? driver : RTLD_NEXT, name);  // leaves the message for dlerror
    return answer_null;
}

// Our own export was found (RTLD_DEFAULT, the program's own handle), or is skipped (RTLD_NEXT).
// Where the driver is not loaded, an unpreloaded process finds nothing.
void* decide_scope(int entry, const char* name) {
    if (resolve_for(entry, false) && entry_reals[entry] != nullptr) return entry_wrappers[entry];
    return answer_missing(name);
}

void* decide_handle(int entry, const char* name, void* found) {
    if (found == nullptr) return nullptr;  // the jump asks again and leaves the message for dlerror
    if (found == entry_wrappers[entry]) return decide_scope(entry, name);
    if (!resolve_for(entry, false)) return found;
    if (entry_reals[entry] == found) return entry_wrappers[entry];
    return is_of_front_alone(entry, found) ? answer_missing(name) : found;
}

int replace(int status, void** result) {
    if (status != cuda_success || result == nullptr || *result == nullptr) return status;
    const int entry = entry_of_address(*result);
    if (entry >= 0) *result = entry_wrappers[entry];
    return status;
}

}  // namespace

extern "C" {

__attribute__((visibility("hidden"))) void* drawbridge_decide(void* handle, const char* name) {
    const RealLibc& own = libc();
    const int entry = name == nullptr || resolving() ? -1 : entry_of_name(name);
    if (entry < 0) return nullptr;
    if (handle == RTLD_NEXT) return decide_scope(entry, name);
    return decide_handle(entry, name, own.dlsym(handle, name));
}

__attribute__((visibility("hidden"))) void* drawbridge_decide_version(void* handle,
                                                                      const char* name,
                                                                      const char* version) {
    const RealLibc& own = libc();
    const int entry = name == nullptr || resolving() ? -1 : entry_of_name(name);
    if (entry < 0) return nullptr;
    if (handle == RTLD_NEXT) return decide_scope(entry, name);
    return decide_handle(entry, name, own.dlvsym(handle, name, version));
}

int cuGetProcAddress(void* symbol, void* pfn, int driverVersion, uint64_t flags) {
    auto* function = real<cuGetProcAddress_function>(entry_cuGetProcAddress);
    if (function == nullptr) return cuda_not_initialized;
    return replace(function(symbol, pfn, driverVersion, flags), static_cast<void**>(pfn));
}

int cuGetProcAddress_v2(void* symbol, void* pfn, int driverVersion, uint64_t flags,
                        void* symbolFound) {
    auto* function = real<cuGetProcAddress_v2_function>(entry_cuGetProcAddress_v2);
    if (function == nullptr) return cuda_not_initialized;
    return replace(function(symbol, pfn, driverVersion, flags, symbolFound),
                   static_cast<void**>(pfn));
}
}
