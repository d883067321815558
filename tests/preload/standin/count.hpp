// Calls of each function of the stand-in, so that a test can see which one was reached.
#pragma once

#include <atomic>

namespace standin {

struct Counter {
    explicit Counter(const char* function);
    const char* name;
    std::atomic<unsigned long> calls{0};
    Counter* next;
};

}  // namespace standin

#define COUNT_CALL(name)                                       \
    do {                                                       \
        static standin::Counter counter(name);                 \
        counter.calls.fetch_add(1, std::memory_order_relaxed); \
    } while (false)
