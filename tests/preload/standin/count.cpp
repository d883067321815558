#include "tests/preload/standin/count.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace standin {
namespace {
std::atomic<Counter*> first{nullptr};
}

// With DRAWBRIDGE_STANDIN_TRACE set, the first call of each function is told on standard error.
Counter::Counter(const char* function) : name(function), next(first.load()) {
    if (std::getenv("DRAWBRIDGE_STANDIN_TRACE") != nullptr)
        std::fprintf(stderr, "standin: %s\n", function);
    while (!first.compare_exchange_weak(next, this)) {
    }
}

}  // namespace standin

/// How often a function of the stand-in was called in this process.
extern "C" unsigned long standin_calls(const char* name) {
    for (const standin::Counter* counter = standin::first; counter != nullptr;
         counter = counter->next)
        if (std::strcmp(counter->name, name) == 0) return counter->calls;
    return 0;
}
