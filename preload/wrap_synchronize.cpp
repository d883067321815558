// Waiting for the driver: pools then give back what is left of them, which nobody would see before
// this process asks for memory again; others may need it meanwhile.
#include "preload/pools.hpp"
#include "preload/resolve.hpp"

using namespace preload;

namespace {

int synchronized(int status) {
    if (status == cuda_success && enforcing()) pools_synchronized();
    return status;
}

}  // namespace

extern "C" {

int cuCtxSynchronize() {
    auto* function = real<cuCtxSynchronize_function>(entry_cuCtxSynchronize);
    return function == nullptr ? cuda_not_initialized : synchronized(function());
}

int cuCtxSynchronize_v2(void* ctx) {
    auto* function = real<cuCtxSynchronize_v2_function>(entry_cuCtxSynchronize_v2);
    return function == nullptr ? cuda_not_initialized : synchronized(function(ctx));
}

int cuEventSynchronize(void* hEvent) {
    auto* function = real<cuEventSynchronize_function>(entry_cuEventSynchronize);
    return function == nullptr ? cuda_not_initialized : synchronized(function(hEvent));
}

int cuStreamSynchronize(void* hStream) {
    auto* function = real<cuStreamSynchronize_function>(entry_cuStreamSynchronize);
    return function == nullptr ? cuda_not_initialized : synchronized(function(hStream));
}

int cuStreamSynchronize_ptsz(void* hStream) {
    auto* function = real<cuStreamSynchronize_ptsz_function>(entry_cuStreamSynchronize_ptsz);
    return function == nullptr ? cuda_not_initialized : synchronized(function(hStream));
}
}
