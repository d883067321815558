// What a driver call costs a process: `benchmark_calls pairs`, `launches`, `start`, `hold`. It is
// run on the stand-in driver with the preload library and without it. `pairs` and `launches` print
// CPU time in ns: a call of the stand-in's own function, and by how much one is dearer that goes to
// whatever the process finds under the name. Both are called in turn in one process, since from one
// process to the next a call's time differs by more than the library takes. `start` prints ns of
// cuInit. `hold` starts CUDA, says so and waits for a line.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>

namespace {

constexpr std::size_t batches = 61;
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

/// The stand-in's own function; `name` is that of a look-up, without a version.
template <class Function>
Function* own(const char* name) {
    return reinterpret_cast<Function*>(named<void*(const char*)>("standin_own")(name));
}

template <class Call>
double batch(Call call) {
    const double began = cpu_ns();
    for (int i = 0; i < calls_a_batch; ++i)
        call();
    return (cpu_ns() - began) / calls_a_batch;
}

double median(std::array<double, batches> values) {
    std::nth_element(values.begin(), values.begin() + batches / 2, values.end());
    return values[batches / 2];
}

/// Prints the medians of batches: ns of a bare call, and what the other takes more.
template <class Call, class OtherCall>
void compare(Call bare, OtherCall other) {
    std::array<double, batches> times{};
    std::array<double, batches> more{};
    for (std::size_t at = 0; at < batches; ++at) {
        const bool bare_first = at % 2 == 0;
        if (bare_first) times[at] = batch(bare);
        more[at] = batch(other);
        if (!bare_first) times[at] = batch(bare);
        more[at] -= times[at];
    }
    std::printf("%.2f %.2f\n", median(times), median(more));
}

void pairs() {
    start();
    using Allocate = int(std::uint64_t*, std::uint64_t);
    using Release = int(std::uint64_t);
    const auto pair_of = [](Allocate* allocate, Release* release) {
        return [=] {
            std::uint64_t block = 0;
            must(allocate(&block, 512), "cuMemAlloc_v2");
            must(release(block), "cuMemFree_v2");
        };
    };
    compare(pair_of(own<Allocate>("cuMemAlloc"), own<Release>("cuMemFree")),
            pair_of(named<Allocate>("cuMemAlloc_v2"), named<Release>("cuMemFree_v2")));
}

void launches() {
    start();
    void* function = nullptr;
    must(named<int(void**, void*, const char*)>("cuModuleGetFunction")(&function, nullptr, nullptr),
         "cuModuleGetFunction");
    using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                       void*, void**, void**);
    // A grid of no blocks takes the stand-in's card no time, so no gate ever closes.
    const auto launch_of = [=](Launch* launch) {
        return [=] {
            must(launch(function, 0, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
                 "cuLaunchKernel");
        };
    };
    compare(launch_of(own<Launch>("cuLaunchKernel")), launch_of(named<Launch>("cuLaunchKernel")));
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
        pairs();
    else if (std::strcmp(mode, "launches") == 0)
        launches();
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
