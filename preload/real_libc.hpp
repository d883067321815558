#pragma once
// The C library's own dlopen, dlsym and dlvsym, found in its symbol table.
//
// The library exports dlsym and dlvsym, so a reference to them by name would come back to itself;
// and up to glibc 2.33 they live in libdl, which a process without CUDA must not be made to load.
//
// Who puts functions of its own before the C library's (a sanitizer's runtime, a profiler) looks
// theirs up through us, before its own can be called. Until such a look-up is answered, nothing of
// the C library is called by its name.

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

/// Whether two texts are equal, without strcmp.
inline bool same_text(const char* one, const char* other) {
    for (; *one != '\0' && *one == *other; ++one)
        ++other;
    return *one == *other;
}

/// Path under which the loader knows this library; empty where it has none.
const char* own_path();

}  // namespace preload
