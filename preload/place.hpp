#pragma once
// Where a build of the library finds its shares and the driver. Two files tell, of which a build
// has one: place_preload.cpp where it is preloaded, place_front.cpp where it stands in the place of
// libcuda.so.1 (the front).

#include <stddef.h>

namespace preload {

/// The folder that holds lib/ and shares/, ended with a null byte. False where it is not known.
bool find_root(char* root, size_t size);

/// The library behind the wrapped cu* names as the loader knows it, null where it is not there.
/// `load`: open it if nobody has.
void* open_cuda(bool load);

/// The driver's own file, where the library that was opened is a front; else null.
void* driver_behind(void* library);

}  // namespace preload
