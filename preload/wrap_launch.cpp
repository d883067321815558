// Everything that starts work on the GPU passes one gate; graph launches do in wrap_graph.cpp.
#include "preload/launch.hpp"
#include "preload/resolve.hpp"
#include "preload/streams.hpp"

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
        gates[at] = due_gate();
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

// The parameters of the two oldest kinds of call are long; the macro only names them once. Where no
// share is limited, the call goes on to the driver as it came: nothing is asked and nothing is
// copied.
#define DRAWBRIDGE_LAUNCH(name, per_thread, stream, parameters, arguments)           \
    [[gnu::noinline]] static int gated_##name parameters {                           \
        auto* function = real<name##_function>(entry_##name);                        \
        if (function == nullptr) return cuda_not_initialized;                        \
        return gated_launch(stream, per_thread, [&] { return function arguments; }); \
    }                                                                                \
    int name parameters {                                                            \
        auto* function = found<name##_function>(entry_##name);                       \
        if (function == nullptr || any_gated()) return gated_##name arguments;       \
        return function arguments;                                                   \
    }

extern "C" {

DRAWBRIDGE_LAUNCH(cuLaunchKernel, false, hStream,
                  (void* f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ,
                   uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ,
                   uint32_t sharedMemBytes, void* hStream, void* kernelParams, void* extra),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchKernel_ptsz, true, hStream,
                  (void* f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ,
                   uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ,
                   uint32_t sharedMemBytes, void* hStream, void* kernelParams, void* extra),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchKernelEx, false, stream_of(config),
                  (void* config, void* f, void* kernelParams, void* extra),
                  (config, f, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchKernelEx_ptsz, true, stream_of(config),
                  (void* config, void* f, void* kernelParams, void* extra),
                  (config, f, kernelParams, extra))

DRAWBRIDGE_LAUNCH(cuLaunchCooperativeKernel, false, hStream,
                  (void* f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ,
                   uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ,
                   uint32_t sharedMemBytes, void* hStream, void* kernelParams),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
                   hStream, kernelParams))

DRAWBRIDGE_LAUNCH(cuLaunchCooperativeKernel_ptsz, true, hStream,
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

DRAWBRIDGE_LAUNCH(cuLaunch, false, nullptr, (void* f), (f))

DRAWBRIDGE_LAUNCH(cuLaunchGrid, false, nullptr, (void* f, int grid_width, int grid_height),
                  (f, grid_width, grid_height))

DRAWBRIDGE_LAUNCH(cuLaunchGridAsync, false, hStream,
                  (void* f, int grid_width, int grid_height, void* hStream),
                  (f, grid_width, grid_height, hStream))
}
