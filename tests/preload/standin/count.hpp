// Calls of each function of the stand-in, so that a test can see which one was reached, and can
// stop one before or after its work while other threads go on.
#pragma once

#include <atomic>

namespace standin {

/// What a function's next call does: nothing special, or stops until the test lets it go.
enum class Stop : int { none, before, after, here };

struct Counter {
    explicit Counter(const char* function);
    const char* name;
    std::atomic<unsigned long> calls{0};
    std::atomic<Stop> stop{Stop::none};
    std::atomic<int> failure{0};  // of the next call
    Counter* next;
};

/// One call. Made before the driver's lock is taken, so that nothing is held where it stops.
class Call {
public:
    explicit Call(Counter& counter) : counter_(counter) {
        counter.calls.fetch_add(1, std::memory_order_relaxed);
        if (counter.failure.load(std::memory_order_relaxed) != 0)
            failure = counter.failure.exchange(0);
        stop(Stop::before);
    }
    ~Call() { stop(Stop::after); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    int failure = 0;

private:
    void stop(Stop where) {
        if (counter_.stop.load(std::memory_order_relaxed) == where) wait(where);
    }
    void wait(Stop where);

    Counter& counter_;
};

}  // namespace standin

#define COUNT_CALL(name)                        \
    static standin::Counter call_counter(name); \
    const standin::Call call(call_counter)
