#pragma once
// Assertions for our own mistakes; never for what input or the environment can cause. To be
// included by .cpp files alone: the tests have a CHECK of another meaning.

#include <cstdio>
#include <cstdlib>

namespace drawbridge::base {

/// Says where and what on standard error, then ends the process.
[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
    std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, condition);
    std::abort();
}

}  // namespace drawbridge::base

/// Ends the process if `condition` does not hold, in every build.
#define CHECK(condition)          \
    (static_cast<bool>(condition) \
         ? static_cast<void>(0)   \
         : ::drawbridge::base::check_failed(#condition, __FILE__, __LINE__))

/// `CHECK` in debug and test builds; elsewhere `condition` is compiled, but not evaluated.
#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#else
#define DCHECK(condition) CHECK(condition)
#endif
