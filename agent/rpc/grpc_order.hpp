#pragma once
// The order of its calls that gRPC promises, told to ThreadSanitizer, which does not see inside a
// library that was not built for it. Nothing in every other build.

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace drawbridge::agent::rpc {

/// What was written to `object` until now is seen by whoever gRPC calls for it next.
inline void before_grpc([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(object);
#endif
}

/// gRPC calls for `object`, behind whatever called `before_grpc` for it.
inline void behind_grpc([[maybe_unused]] void* object) {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(object);
#endif
}

}  // namespace drawbridge::agent::rpc
