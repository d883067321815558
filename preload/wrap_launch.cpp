// Everything that starts work on the GPU passes one gate; graph launches do in wrap_graph.cpp.
#include "preload/launch.hpp"
#include "preload/resolve.hpp"

#include <string.h>

namespace {

using namespace preload;

// CUlaunchConfig: seven 32-bit sizes, then the stream.
void* stream_of(const void* config) {
    void* stream = nullptr;
    if (config != nullptr) memcpy(&stream, static_cast<const char*>(config) + 32, sizeof stream);
    return stream;
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

DRAWBRIDGE_LAUNCH(cuLaunch, false, nullptr, (void* f), (f))

DRAWBRIDGE_LAUNCH(cuLaunchGrid, false, nullptr, (void* f, int grid_width, int grid_height),
                  (f, grid_width, grid_height))

DRAWBRIDGE_LAUNCH(cuLaunchGridAsync, false, hStream,
                  (void* f, int grid_width, int grid_height, void* hStream),
                  (f, grid_width, grid_height, hStream))
}
