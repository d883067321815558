#pragma once
// The launch gate on the real driver: which gate a launch belongs to, when it is due for a look,
// and the world that a gate lives in.

#include "preload/process.hpp"

#include <stdint.h>

namespace preload {

/// One gate for each context of this process.
struct Gated;

/// Whether launches on a share are limited or paused: decided by two words of its limits.
inline bool is_gated(const Share& share) {
    return __atomic_load_n(&share.limits->core_permille, __ATOMIC_RELAXED) < DRAWBRIDGE_ALL_CORES ||
           __atomic_load_n(&share.limits->paused_until_ns, __ATOMIC_RELAXED) != 0;
}

/// Whether launches on any share of this process are.
inline bool any_gated() {
    if (!enforcing()) return false;
    for (int share = 0; share < process.share_count; ++share)
        if (is_gated(process.shares[share])) return true;
    return false;
}

/// Lets launches that nothing limits go to the driver without asking, from the moment on at which
/// shares are enforced; and no longer, in a forked child.
void open_launches();
void close_launches();

/// Whether this launch has to look at the gate of the calling thread's device; counts it. False
/// where nothing is limited.
bool launch_is_due();

/// The gate of the calling thread's context, null where nothing is limited.
Gated* gate_here();

/// The look before a launch and after it. `opened` goes from one to the other.
bool look_before(Gated& gated, void* stream, bool per_thread);
void look_after(Gated& gated, void* stream, bool per_thread, bool opened);

/// Forgets the gate of a context that is gone, or all of them in a forked child.
void forget_gate(uint64_t context);
void forget_gates();

/// A launch that looks at the gate.
template <class Call>
int launch_at_gate(void* stream, bool per_thread, Call call) {
    Gated* gated = enforcing() ? gate_here() : nullptr;
    if (gated == nullptr) return call();
    const bool opened = look_before(*gated, stream, per_thread);
    const int status = call();
    look_after(*gated, stream, per_thread, opened);
    return status;
}

/// A launch of any kind: it looks at the gate if it is due.
template <class Call>
int gated_launch(void* stream, bool per_thread, Call call) {
    if (!enforcing() || !launch_is_due()) return call();
    return launch_at_gate(stream, per_thread, call);
}

}  // namespace preload
