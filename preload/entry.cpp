// cuInit: where a process without CUDA becomes one with it, where shares are claimed, and where
// everything that is missing ends in a refusal.
#include "preload/charge.hpp"
#include "preload/launch.hpp"
#include "preload/os.hpp"
#include "preload/resolve.hpp"
#include "preload/state.hpp"

#include <stdio.h>

// What pthread_atfork calls; that one is newer than 2.17 in some libraries.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" int __register_atfork(void (*)(void), void (*)(void), void (*)(void), void*);

namespace preload {
namespace {

Mutex initialising;
bool fork_handler_set;
bool complained;

void in_child() {
    forget_parent();
    forget_blocks();
    initialising = Mutex{};
    complained = false;
}

int refuse(const char* reason) {
    if (!__atomic_exchange_n(&complained, true, __ATOMIC_RELAXED)) {
        char line[480];
        snprintf(line, sizeof line, "cuInit refused: %s", reason);
        complain(line);
    }
    return cuda_not_permitted;
}

void learn_device(int device) {
    process.share_of[device] = -1;
    uint8_t uuid[16] = {};
    if (helpers.device_uuid == nullptr || helpers.device_uuid(uuid, device) != cuda_success) return;
    int multiprocessors = 0;
    int threads = 0;
    int integrated = 0;
    helpers.device_attribute(&multiprocessors, attribute_multiprocessors, device);
    helpers.device_attribute(&threads, attribute_threads_per_multiprocessor, device);
    helpers.device_attribute(&integrated, attribute_integrated, device);
    process.stack_threads[device] = static_cast<uint32_t>(multiprocessors * threads);
    // An integrated GPU's memory is the host's.
    if (integrated == 0) process.share_of[device] = static_cast<int16_t>(share_of_uuid(uuid));
}

bool claim_for(int device, Problem& problem) {
    int version = 0;
    helpers.driver_version(&version);
    for (int share = process.share_of[device]; share >= 0; share = process.shares[share].next) {
        if (!claim_slot(process.shares[share], problem)) return false;
        own_slot(share).driver_version = static_cast<uint32_t>(version);
        own_slot(share).seen_generation =
            static_cast<uint32_t>(process.shares[share].cached.generation);
        reap(process.shares[share]);
    }
    return true;
}

int take_shares() {
    int count = 0;
    if (helpers.device_count(&count) != cuda_success) return cuda_success;
    process.device_count = count < max_devices ? count : max_devices;
    Problem problem;
    for (int device = 0; device < process.device_count; ++device) {
        learn_device(device);
        if (!claim_for(device, problem)) return refuse(problem.text);
    }
    open_launches();
    set_mode(Mode::enforcing);
    return cuda_success;
}

}  // namespace

void follow_forks() {
    if (__atomic_load_n(&fork_handler_set, __ATOMIC_ACQUIRE)) return;
    // Of two threads that come here at once both may set it, which does no harm.
    if (__register_atfork(nullptr, nullptr, &in_child, nullptr) == 0)
        __atomic_store_n(&fork_handler_set, true, __ATOMIC_RELEASE);
}

}  // namespace preload

extern "C" {

__attribute__((visibility("default"))) extern const char drawbridge_build[] =
    "drawbridge preload 1.0";

int cuInit(uint32_t Flags) {
    using namespace preload;
    auto* function = real<cuInit_function>(entry_cuInit);
    if (function == nullptr) return cuda_no_device;
    if (held_behind() != nullptr) return function(Flags);
    const Mode mode = load_shares();
    if (mode == Mode::refused) return refuse(process.problem.text);
    const int status = function(Flags);
    if (status != cuda_success || mode != Mode::ready) return status;
    const Guard guard(initialising);
    return enforcing() ? status : take_shares();
}
}
