#pragma once
// The C library's own dlopen, dlsym and dlvsym, found in its symbol table.
//
// The library exports dlsym and dlvsym, so a reference to them by name would come back to itself;
// and up to glibc 2.33 they live in libdl, which a process without CUDA must not be made to load.

namespace preload {

struct RealLibc {
    void* (*dlopen)(const char*, int);
    void* (*dlsym)(void*, const char*);
    void* (*dlvsym)(void*, const char*, const char*);
    char* (*dlerror)();
};

/// Found at the first call; functions that are missing answer null.
const RealLibc& libc();

/// True while this thread looks for the real functions: its look-ups then go to the C library
/// unchanged.
bool& resolving();

/// Path under which the loader knows this library; empty where it has none.
const char* own_path();

}  // namespace preload
