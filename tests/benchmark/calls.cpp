// What a driver call costs a process: `benchmark_calls pairs`, `launches`, `start`, `hold`. It is
// run on the stand-in driver with and without the preload library; the difference is the library's.
// Prints CPU time: ns a pair of allocation and free, ns a launch, ns of cuInit. `hold` starts CUDA,
// says so and waits for a line.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>

namespace {

constexpr std::size_t batches = 31;
constexpr int calls_a_batch = 20'000;

void* driver;

template <class Function>
Function* named(const char* name) {
    auto* found = reinterpret_cast<Function*>(dlsym(driver, name));
    if (found == nullptr) {
        std::fprintf(stderr, "the driver has no %s\n", name);
        std::exit(1);
    }
    return found;
}

void must(int status, const char* what) {
    if (status == 0) return;
    std::fprintf(stderr, "%s: %d\n", what, status);
    std::exit(1);
}

double cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void start() {
    must(named<int(unsigned)>("cuInit")(0), "cuInit");
    void* context = nullptr;
    must(named<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0), "context");
    must(named<int(void*)>("cuCtxSetCurrent")(context), "context");
}

/// The median of batches, in ns of CPU time a call.
template <class Call>
double cost(Call call) {
    std::array<double, batches> times{};
    for (double& time : times) {
        const double began = cpu_ns();
        for (int i = 0; i < calls_a_batch; ++i)
            call();
        time = (cpu_ns() - began) / calls_a_batch;
    }
    std::nth_element(times.begin(), times.begin() + batches / 2, times.end());
    return times[batches / 2];
}

double pairs() {
    start();
    auto* allocate = named<int(std::uint64_t*, std::uint64_t)>("cuMemAlloc_v2");
    auto* release = named<int(std::uint64_t)>("cuMemFree_v2");
    std::uint64_t block = 0;
    return cost([&] {
        must(allocate(&block, 512), "cuMemAlloc_v2");
        must(release(block), "cuMemFree_v2");
    });
}

double launches() {
    start();
    void* function = nullptr;
    must(named<int(void**, void*, const char*)>("cuModuleGetFunction")(&function, nullptr, nullptr),
         "cuModuleGetFunction");
    using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       void*, void**, void**);
    auto* launch = named<Launch>("cuLaunchKernel");
    // A grid of no blocks takes the stand-in's card no time, so no gate ever closes.
    return cost([&] {
        must(launch(function, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr), "cuLaunchKernel");
    });
}

double first_call() {
    auto* initialise = named<int(unsigned)>("cuInit");
    const double began = cpu_ns();
    must(initialise(0), "cuInit");
    return cpu_ns() - began;
}

}  // namespace

int main(int count, char** arguments) {
    const char* mode = count > 1 ? arguments[1] : "";
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (std::strcmp(mode, "pairs") == 0)
        std::printf("%.2f\n", pairs());
    else if (std::strcmp(mode, "launches") == 0)
        std::printf("%.2f\n", launches());
    else if (std::strcmp(mode, "start") == 0)
        std::printf("%.0f\n", first_call());
    else if (std::strcmp(mode, "hold") == 0) {
        start();
        std::puts("ready");
        std::fflush(stdout);
        std::getchar();
    } else {
        std::fprintf(stderr, "usage: %s pairs | launches | start | hold\n", arguments[0]);
        return 1;
    }
    return 0;
}
