// A program in a container that uses a GPU by the driver's interface, as told line by line:
//
// - `alloc BYTES`: cuMemAlloc; answers `ok ADDRESS` or `refused CODE`
// - `free ADDRESS`: cuMemFree; answers `ok 0` or `refused CODE`
// - `info`: cuMemGetInfo; answers `FREE TOTAL` in bytes
//
// Its first line is `pid N`, or `refused CODE` where the driver did not start. With the argument
// `past` it loads the driver into a namespace of the linker's own, where no preloaded library is.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

namespace {

void* driver;

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name));
    if (function == nullptr) {
        std::fprintf(stderr, "the driver has no %s\n", name);
        std::exit(1);
    }
    return function(arguments...);
}

void say(int status, std::uint64_t value) {
    if (status == 0) {
        std::printf("ok %llu\n", static_cast<unsigned long long>(value));
    } else {
        std::printf("refused %d\n", status);
    }
}

int start() {
    int device = 0;
    void* context = nullptr;
    if (const int status = call("cuInit", 0U)) return status;
    if (const int status = call("cuDeviceGet", &device, 0)) return status;
    if (const int status = call("cuDevicePrimaryCtxRetain", &context, device)) return status;
    return call("cuCtxSetCurrent", context);
}

void obey(const char* word, std::uint64_t number) {
    if (std::strcmp(word, "alloc") == 0) {
        std::uint64_t address = 0;
        const int status = call("cuMemAlloc_v2", &address, number);
        say(status, address);
    } else if (std::strcmp(word, "free") == 0) {
        say(call("cuMemFree_v2", number), 0);
    } else {
        std::uint64_t free = 0;
        std::uint64_t total = 0;
        if (const int status = call("cuMemGetInfo_v2", &free, &total)) return say(status, 0);
        std::printf("%llu %llu\n", static_cast<unsigned long long>(free),
                    static_cast<unsigned long long>(total));
    }
}

}  // namespace

int main(int count, char** arguments) {
    const bool past = count > 1 && std::strcmp(arguments[1], "past") == 0;
    driver =
        past ? dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW) : dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    if (const int status = start()) {
        say(status, 0);
        return 1;
    }
    std::printf("pid %d\n", getpid());
    char line[128];
    while (std::fgets(line, sizeof line, stdin) != nullptr) {
        char word[32] = "";
        unsigned long long number = 0;
        std::sscanf(line, "%31s %llu", word, &number);
        obey(word, number);
    }
}
