// Kernels, streams and events of the stand-in on a clock: a kernel takes 1 us of GPU for each block
// in x, streams are queues, events carry the time at which their stream reaches them.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <time.h>
#include <unistd.h>

using namespace standin;

namespace {

constexpr std::size_t queue_depth = 1024;

struct Event {
    const Context* context;
    std::uint64_t at = 0;
};

// CUDA_LAUNCH_PARAMS.
struct LaunchOfOne {
    void* function;
    unsigned sizes[8];
    Stream* stream;
    void** parameters;
};

struct Queue {
    std::uint64_t end = 0;
    std::deque<std::uint64_t> ends;
};

std::map<const void*, Queue>& queues() {
    static auto* made = new std::map<const void*, Queue>;
    return *made;
}

std::uint64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1000000000u +
           static_cast<std::uint64_t>(time.tv_nsec);
}

// A point of that clock, by the wall clock.
std::uint64_t wall(std::uint64_t at) {
    timespec time{};
    clock_gettime(CLOCK_REALTIME, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * second_ns +
           static_cast<std::uint64_t>(time.tv_nsec) - now() + at;
}

void wait_until(std::uint64_t at) {
    const timespec time{static_cast<time_t>(at / 1000000000u), static_cast<long>(at % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
    }
}

int launch(const void* stream, unsigned blocks) {
    if (current() == nullptr) return invalid_context;
    const std::uint64_t length = std::uint64_t{blocks} * 1000;
    std::uint64_t full_until = 0;
    {
        const std::lock_guard guard(driver().lock);
        Queue& queue = queues()[stream];
        while (!queue.ends.empty() && queue.ends.front() <= now())
            queue.ends.pop_front();
        if (queue.ends.size() >= queue_depth) full_until = queue.ends.front();
    }
    if (full_until != 0) wait_until(full_until);
    const std::lock_guard guard(driver().lock);
    Queue& queue = queues()[stream];
    const std::uint64_t begin = std::max(now(), queue.end);
    queue.end = begin + length;
    count_busy(card(current()->device), wall(begin), wall(queue.end));
    queue.ends.push_back(queue.end);
    std::atomic_ref(world().busy_ns).fetch_add(length);
    return success;
}

std::uint64_t last_end() {
    const std::lock_guard guard(driver().lock);
    std::uint64_t end = 0;
    for (const auto& [stream, queue] : queues())
        end = std::max(end, queue.end);
    return end;
}

int record(Event* event, const void* stream) {
    if (event == nullptr) return invalid_handle;
    const std::lock_guard guard(driver().lock);
    for (const Stream* one : driver().streams) {
        if (one != stream) continue;
        if (one->capture != nullptr) return capture_implicit;
        if (one->context != event->context) return invalid_handle;
    }
    event->at = std::max(now(), queues()[stream].end);
    return success;
}

}  // namespace

namespace standin {
void wait_for_work() {
    wait_until(last_end());
}
}  // namespace standin

extern "C" {

int cuModuleLoadData(void** module, const void*) {
    COUNT_CALL("cuModuleLoadData");
    *module = new char;
    return success;
}

int cuModuleGetFunction(void** function, void*, const char*) {
    COUNT_CALL("cuModuleGetFunction");
    *function = new char;
    return success;
}

int cuLaunchKernel(void*, unsigned x, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   void* stream, void**, void**) {
    COUNT_CALL("cuLaunchKernel");
    return launch(stream, x);
}

int cuLaunchKernel_ptsz(void*, unsigned x, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, void* stream, void**, void**) {
    COUNT_CALL("cuLaunchKernel_ptsz");
    return launch(stream, x);
}

int cuLaunchKernelEx(const char* config, void*, void**, void**) {
    COUNT_CALL("cuLaunchKernelEx");
    unsigned x = 0;
    void* stream = nullptr;
    std::memcpy(&x, config, sizeof x);
    std::memcpy(&stream, config + 32, sizeof stream);
    return launch(stream, x);
}

int cuLaunchCooperativeKernelMultiDevice(const LaunchOfOne* list, unsigned count, unsigned) {
    COUNT_CALL("cuLaunchCooperativeKernelMultiDevice");
    for (unsigned at = 0; at < count; ++at) {
        {
            const std::lock_guard guard(driver().lock);
            if (driver().streams.count(list[at].stream) == 0) return invalid_handle;
            context_stack().push_back(list[at].stream->context);
        }
        const int status = launch(list[at].stream, list[at].sizes[0]);
        context_stack().pop_back();
        if (status != success) return status;
    }
    return success;
}

int cuEventCreate(Event** event, unsigned) {
    COUNT_CALL("cuEventCreate");
    *event = new Event{current()};
    return success;
}

int cuEventDestroy_v2(Event* event) {
    COUNT_CALL("cuEventDestroy_v2");
    delete event;
    return success;
}

int cuEventRecord(Event* event, void* stream) {
    COUNT_CALL("cuEventRecord");
    return record(event, stream);
}

int cuEventRecord_ptsz(Event* event, void* stream) {
    COUNT_CALL("cuEventRecord_ptsz");
    return record(event, stream);
}

int cuEventQuery(Event* event) {
    COUNT_CALL("cuEventQuery");
    return event->at <= now() ? success : not_ready;
}

int cuEventSynchronize(Event* event) {
    COUNT_CALL("cuEventSynchronize");
    if (event == nullptr) return invalid_handle;
    wait_until(event->at);
    const std::lock_guard guard(driver().lock);
    synchronize();
    return success;
}

int cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
    COUNT_CALL("cuEventElapsedTime");
    if (from->at > now() || to->at > now()) return not_ready;
    *milliseconds =
        static_cast<float>(static_cast<double>(static_cast<std::int64_t>(to->at - from->at)) / 1e6);
    return success;
}
}
