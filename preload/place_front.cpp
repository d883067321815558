// The front has the name of libcuda.so.1 and lies where the driver's file would; the driver's own
// file is at a fixed place and one of the front's dependencies, so that the loader has opened it in
// the same namespace, and finds there whatever the front does not define.
#include "preload/abi.h"
#include "preload/place.hpp"
#include "preload/real_libc.hpp"

#include <dlfcn.h>
#include <stdio.h>

extern "C" {
// By this a preloaded library knows that the limits are held behind it.
__attribute__((visibility("default"))) extern const char drawbridge_front[] =
    DRAWBRIDGE_DRIVER_FILE;
}

namespace preload {

bool find_root(char* root, size_t size) {
    snprintf(root, size, "%s", DRAWBRIDGE_ROOT);
    return true;
}

void* open_cuda(bool) {
    return libc().dlopen(DRAWBRIDGE_DRIVER_FILE, RTLD_LAZY | RTLD_NOLOAD);
}

void* driver_behind(void*) {
    return nullptr;
}

}  // namespace preload
