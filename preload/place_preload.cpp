// The preloaded library lies in <root>/lib, the shares in <root>/shares. No variable of the
// environment has a say in it.
#include "preload/abi.h"
#include "preload/place.hpp"
#include "preload/real_libc.hpp"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

namespace preload {

bool find_root(char* root, size_t size) {
    snprintf(root, size, "%s", own_path());
    for (int up = 0; up < 2; ++up) {
        char* slash = strrchr(root, '/');
        if (slash == nullptr) return false;
        *slash = '\0';
    }
    return true;
}

void* open_cuda(bool load) {
    return libc().dlopen("libcuda.so.1", load ? RTLD_LAZY : RTLD_LAZY | RTLD_NOLOAD);
}

void* driver_behind(void* library) {
    if (libc().dlsym(library, "drawbridge_front") == nullptr) return nullptr;
    return libc().dlopen(DRAWBRIDGE_DRIVER_FILE, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace preload
