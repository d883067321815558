#include "tests/preload/standin/count.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sched.h>

namespace standin {
namespace {
std::atomic<Counter*> first{nullptr};

Counter* find(const char* name) {
    Counter* counter = first;
    while (counter != nullptr && std::strcmp(counter->name, name) != 0)
        counter = counter->next;
    return counter;
}
}  // namespace

// With DRAWBRIDGE_STANDIN_TRACE set, the first call of each function is told on standard error.
Counter::Counter(const char* function) : name(function), next(first.load()) {
    if (std::getenv("DRAWBRIDGE_STANDIN_TRACE") != nullptr)
        std::fprintf(stderr, "standin: %s\n", function);
    while (!first.compare_exchange_weak(next, this)) {
    }
}

void Call::wait(Stop where) {
    if (!counter_.stop.compare_exchange_strong(where, Stop::here)) return;
    while (counter_.stop == Stop::here)
        sched_yield();
}

}  // namespace standin

extern "C" {

/// How often a function of the stand-in was called in this process.
unsigned long standin_calls(const char* name) {
    const standin::Counter* counter = standin::find(name);
    return counter == nullptr ? 0 : counter->calls.load();
}

/// Stops the next call of a function, which was called before, before its work or after it; 0 where
/// it was not.
int standin_stop(const char* name, int after) {
    standin::Counter* counter = standin::find(name);
    if (counter != nullptr)
        counter->stop = after != 0 ? standin::Stop::after : standin::Stop::before;
    return counter != nullptr ? 1 : 0;
}

/// Lets the next call fail, before it does anything.
int standin_fail(const char* name, int status) {
    standin::Counter* counter = standin::find(name);
    if (counter != nullptr) counter->failure = status;
    return counter != nullptr ? 1 : 0;
}

/// Whether a call stands there now.
int standin_stands(const char* name) {
    const standin::Counter* counter = standin::find(name);
    return counter != nullptr && counter->stop == standin::Stop::here ? 1 : 0;
}

/// Lets it go, or takes the stop back.
void standin_go(const char* name) {
    standin::Counter* counter = standin::find(name);
    if (counter != nullptr) counter->stop = standin::Stop::none;
}
}
