// Everything that starts work on the GPU passes one gate; graph launches do in wrap_graph.cpp.
#include "preload/launch.hpp"
#include "preload/launch_words.h"
#include "preload/resolve.hpp"
#include "preload/streams.hpp"

#include <stddef.h>
#include <string.h>

namespace {

using namespace preload;

// CUlaunchConfig: seven 32-bit sizes, then the stream.
void* stream_of(const void* config) {
    void* stream = nullptr;
    if (config != nullptr) memcpy(&stream, static_cast<const char*>(config) + 32, sizeof stream);
    return stream;
}

// CUDA_LAUNCH_PARAMS: a function, seven 32-bit sizes, the stream, the parameters. Each kernel is of
// another device, and its gate is that of its stream.
struct OneOfMany {
    void* function;
    uint32_t sizes[8];
    void* stream;
    void* parameters;
};
static_assert(sizeof(OneOfMany) == 56);

template <class Call>
int launch_many(const void* list, uint32_t count, Call call) {
    if (list == nullptr || count > max_devices || !any_gated()) return call();
    const auto* kernels = static_cast<const OneOfMany*>(list);
    Gated* gates[max_devices];
    bool opened[max_devices] = {};
    for (uint32_t at = 0; at < count; ++at) {
        const InContextOf there(kernels[at].stream);
        gates[at] = launch_is_due() ? gate_here() : nullptr;
        if (gates[at] != nullptr) opened[at] = look_before(*gates[at], kernels[at].stream, false);
    }
    const int status = call();
    for (uint32_t at = 0; at < count; ++at) {
        const InContextOf there(kernels[at].stream);
        if (gates[at] != nullptr) look_after(*gates[at], kernels[at].stream, false, opened[at]);
    }
    return status;
}

}  // namespace

// The parameters of the two oldest kinds of call are long; the macro only names them once. A launch
// that need not look at a gate goes on to the driver as it came. `exported` is the name itself, or
// what decides behind the assembler of that name.
#define DRAWBRIDGE_LAUNCH(name, exported, per_thread, stream, parameters, arguments)   \
    [[gnu::noinline]] static int looking_##name parameters {                           \
        auto* function = real<name##_function>(entry_##name);                          \
        if (function == nullptr) return cuda_not_initialized;                          \
        return launch_at_gate(stream, per_thread, [&] { return function arguments; }); \
    }                                                                                  \
    int exported parameters {                                                          \
        auto* function = found<name##_function>(entry_##name);                         \
        if (function == nullptr || (any_gated() && launch_is_due()))                   \
            return looking_##name arguments;                                           \
        return function arguments;                                                     \
    }
#ifdef __x86_64__
#define BEHIND_ASSEMBLER(name) decided_##name
#else
#define BEHIND_ASSEMBLER(name) name
#endif

extern "C" {

DRAWBRIDGE_LAUNCH(cuLaunchKernel, BEHIND_ASSEMBLER(cuLaunchKernel), false, hStream,
                  (void* f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ,
                   uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ,
                   uint32_t sharedMemBytes, void* hStream, void* kernelParams, void* extra),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchKernel_ptsz, BEHIND_ASSEMBLER(cuLaunchKernel_ptsz), true, hStream,
                  (void* f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ,
                   uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ,
                   uint32_t sharedMemBytes, void* hStream, void* kernelParams, void* extra),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchKernelEx, cuLaunchKernelEx, false, stream_of(config),
                  (void* config, void* f, void* kernelParams, void* extra),
                  (config, f, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchKernelEx_ptsz, cuLaunchKernelEx_ptsz, true, stream_of(config),
                  (void* config, void* f, void* kernelParams, void* extra),
                  (config, f, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchCooperativeKernel, BEHIND_ASSEMBLER(cuLaunchCooperativeKernel), false,
                  hStream,
                  (void* f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ,
                   uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ,
                   uint32_t sharedMemBytes, void* hStream, void* kernelParams),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams))

DRAWBRIDGE_LAUNCH(cuLaunchCooperativeKernel_ptsz, BEHIND_ASSEMBLER(cuLaunchCooperativeKernel_ptsz),
                  true, hStream,
                  (void* f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ,
                   uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ,
                   uint32_t sharedMemBytes, void* hStream, void* kernelParams),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams))

int cuLaunchCooperativeKernelMultiDevice(void* launchParamsList, uint32_t numDevices,
                                         uint32_t flags) {
    auto* function = real<cuLaunchCooperativeKernelMultiDevice_function>(
        entry_cuLaunchCooperativeKernelMultiDevice);
    if (function == nullptr) return cuda_not_initialized;
    return launch_many(launchParamsList, numDevices,
                       [=] { return function(launchParamsList, numDevices, flags); });
}

DRAWBRIDGE_LAUNCH(cuLaunch, cuLaunch, false, nullptr, (void* f), (f))

DRAWBRIDGE_LAUNCH(cuLaunchGrid, cuLaunchGrid, false, nullptr,
                  (void* f, int grid_width, int grid_height), (f, grid_width, grid_height))

DRAWBRIDGE_LAUNCH(cuLaunchGridAsync, cuLaunchGridAsync, false, hStream,
                  (void* f, int grid_width, int grid_height, void* hStream),
                  (f, grid_width, grid_height, hStream))
}

#ifdef __x86_64__
// What launch_x86_64.S goes by: limits of the process's only share, null where it has to ask, and
// where a launch goes that they let through.
extern "C" {
struct {
    const drawbridge_limits* limits;
    void* functions[4];
} drawbridge_open_launches;
}
static_assert(DRAWBRIDGE_ALL_CORES == LAUNCH_ALL_CORES);
static_assert(offsetof(drawbridge_limits, core_permille) == LAUNCH_CORE_PERMILLE);
static_assert(offsetof(drawbridge_limits, paused_until_ns) == LAUNCH_PAUSED_UNTIL);

namespace preload {

void open_launches() {
    if (process.share_count != 1) return;
    const auto either = [](int entry, auto* decided) {
        void* function = found<void*>(entry);
        return function != nullptr ? function : reinterpret_cast<void*>(decided);
    };
    auto& functions = drawbridge_open_launches.functions;
    functions[0] = either(entry_cuLaunchKernel, decided_cuLaunchKernel);
    functions[1] = either(entry_cuLaunchKernel_ptsz, decided_cuLaunchKernel_ptsz);
    functions[2] = either(entry_cuLaunchCooperativeKernel, decided_cuLaunchCooperativeKernel);
    functions[3] =
        either(entry_cuLaunchCooperativeKernel_ptsz, decided_cuLaunchCooperativeKernel_ptsz);
    __atomic_store_n(&drawbridge_open_launches.limits, process.shares[0].limits, __ATOMIC_RELEASE);
}

void close_launches() {
    __atomic_store_n(&drawbridge_open_launches.limits, nullptr, __ATOMIC_RELAXED);
}

}  // namespace preload
#else
void preload::open_launches() {}
void preload::close_launches() {}
#endif
