#pragma once
// What this process knows: its shares, which device belongs to which, and whether anything is to be
// enforced at all.

#include "preload/share_files.hpp"
#include "preload/status.hpp"

#include <stdint.h>

namespace preload {

inline constexpr int max_shares = 16;
inline constexpr int max_devices = 64;

enum class Mode : uint32_t {
    unknown,    // nobody has asked yet
    dormant,    // no share here: everything is forwarded
    ready,      // shares are mapped, no slot held (a process that only looks)
    enforcing,  // cuInit has succeeded; slots are held
    refused     // a share cannot be used: cuInit answers "not permitted"
};

struct Process {
    uint32_t mode = 0;  // a Mode; read by every call
    Share shares[max_shares];
    int share_count = 0;
    int device_count = 0;
    int16_t share_of[max_devices] = {};        // device ordinal -> first share, -1 none
    uint32_t stack_threads[max_devices] = {};  // resident threads of the whole device
    Problem problem;
};

extern Process process;

/// The mode, and its change.
inline Mode mode_now() {
    return static_cast<Mode>(__atomic_load_n(&process.mode, __ATOMIC_ACQUIRE));
}
inline void set_mode(Mode mode) {
    __atomic_store_n(&process.mode, static_cast<uint32_t>(mode), __ATOMIC_RELEASE);
}

/// True where allocations are accounted for.
inline bool enforcing() {
    return mode_now() == Mode::enforcing;
}

/// Maps the shares at the first call; the mode then is no longer unknown.
Mode load_shares();

/// First share of a device ordinal, -1 where it has none.
inline int share_of_device(int device) {
    return device >= 0 && device < process.device_count && device < max_devices
               ? process.share_of[device]
               : -1;
}

/// First share with a device's UUID, -1 where there is none.
int share_of_uuid(const uint8_t (&uuid)[16]);

/// The device of the calling thread's context, -1 where it has none.
int current_device();

/// The calling thread's context as a number, 0 where it has none.
uint64_t current_context();

/// From now on a forked child knows nothing of what its parent knew (entry.cpp).
void follow_forks();

/// Called in a forked child: drops everything that belongs to the parent.
void forget_parent();

}  // namespace preload
