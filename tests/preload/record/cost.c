/* Times driver calls that the library makes or wraps: median ns a call over batches, as lines `NAME NS`.
 * Loads the driver at run time; needs no header of it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef uint64_t u64;
typedef int (*fn)();

static void* driver;

static fn get(const char* name) {
    fn found = (fn)dlsym(driver, name);
    if (found == NULL) { fprintf(stderr, "%s is missing\n", name); exit(1); }
    return found;
}

static u64 now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

static int compare(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

#define BATCHES 41
#define MEASURE(name, count, ...)                                          \
    do {                                                                   \
        double times[BATCHES];                                             \
        for (int batch_ = 0; batch_ < BATCHES; ++batch_) {                                \
            u64 t0 = now_ns();                                             \
            for (int i = 0; i < (count); ++i) { __VA_ARGS__; }             \
            times[batch_] = (double)(now_ns() - t0) / (count);                  \
        }                                                                  \
        qsort(times, BATCHES, sizeof times[0], compare);                   \
        printf("%s %.1f (%.1f .. %.1f)\n", name, times[BATCHES / 2], times[BATCHES / 10], times[BATCHES * 9 / 10]); \
        fflush(stdout);                                                    \
    } while (0)

static const char empty_kernel[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";

int main(void) {
    u64 t0 = now_ns();
    driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (driver == NULL) { fprintf(stderr, "%s\n", dlerror()); return 1; }
    u64 t1 = now_ns();
    if (get("cuInit")(0) != 0) return 1;
    u64 t2 = now_ns();
    u64 context = 0, stream = 0, module = 0, function = 0, e0 = 0, e1 = 0, pool = 0, pointer = 0, a = 0, b = 0;
    get("cuDevicePrimaryCtxRetain")(&context, 0);
    u64 t3 = now_ns();
    get("cuCtxSetCurrent")(context);
    printf("dlopen %.0f\ncuInit %.0f\nprimary_context %.0f\n", (double)(t1 - t0), (double)(t2 - t1), (double)(t3 - t2));
    get("cuStreamCreate")(&stream, 1);
    if (get("cuModuleLoadData")(&module, empty_kernel) != 0) printf("module_failed 1\n");
    get("cuModuleGetFunction")(&function, module, "empty");
    get("cuEventCreate")(&e0, 0);
    get("cuEventCreate")(&e1, 0);
    get("cuDeviceGetDefaultMemPool")(&pool, 0);

    fn alloc = get("cuMemAlloc_v2"), release = get("cuMemFree_v2");
    u64 warm = 0;
    alloc(&warm, (u64)512);
    MEASURE("alloc_free_512", 200, alloc(&pointer, (u64)512); release(pointer));
    MEASURE("alloc_free_1MiB", 50, alloc(&pointer, (u64)1 << 20); release(pointer));
    MEASURE("alloc_free_64MiB", 10, alloc(&pointer, (u64)64 << 20); release(pointer));
    fn info = get("cuMemGetInfo_v2");
    MEASURE("mem_get_info", 100, info(&a, &b));
    fn total = get("cuDeviceTotalMem_v2");
    MEASURE("device_total_mem", 1000, total(&a, 0));
    int device = 0, status = 0;
    fn current = get("cuCtxGetDevice");
    MEASURE("ctx_get_device", 10000, current(&device));
    fn ctx = get("cuCtxGetCurrent");
    MEASURE("ctx_get_current", 10000, ctx(&a));
    fn attribute = get("cuMemPoolGetAttribute");
    MEASURE("pool_attribute", 1000, attribute(pool, 5, &a));
    fn get_pool = get("cuDeviceGetMemPool");
    MEASURE("device_get_pool", 1000, get_pool(&a, 0));
    fn graph_attribute = get("cuDeviceGetGraphMemAttribute");
    MEASURE("graph_attribute", 1000, graph_attribute(0, 2, &a));
    u64 keep = (u64)1 << 30;
    get("cuMemPoolSetAttribute")(pool, 4, &keep);
    fn alloc_async = get("cuMemAllocAsync"), free_async = get("cuMemFreeAsync");
    MEASURE("alloc_free_async_1MiB_pooled", 200, alloc_async(&pointer, (u64)1 << 20, stream); free_async(pointer, stream));
    fn capturing = get("cuStreamIsCapturing");
    MEASURE("stream_is_capturing", 10000, capturing(stream, &status));
    fn exchange = get("cuThreadExchangeStreamCaptureMode");
    int mode = 2;
    MEASURE("exchange_capture_mode", 10000, exchange(&mode));
    fn launch = get("cuLaunchKernel"), sync = get("cuStreamSynchronize");
    MEASURE("launch", 500, launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    sync(stream);
    MEASURE("launch_sync", 100, launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL); sync(stream));
    fn record = get("cuEventRecord"), query = get("cuEventQuery"), elapsed = get("cuEventElapsedTime");
    MEASURE("event_record", 200, record(e0, stream));
    sync(stream);
    MEASURE("event_query", 10000, query(e0));
    record(e1, stream);
    sync(stream);
    float ms = 0;
    MEASURE("event_elapsed", 1000, elapsed(&ms, e0, e1));
    MEASURE("launch_with_two_events", 200, record(e0, stream); launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL); record(e1, stream));
    sync(stream);
    fn lookup = get("cuGetProcAddress_v2");
    MEASURE("get_proc_address", 1000, lookup("cuMemAlloc", &a, 12000, (u64)0, &status));
    char uuid[16];
    fn get_uuid = get("cuDeviceGetUuid_v2");
    MEASURE("device_get_uuid", 1000, get_uuid(uuid, 0));
    fn pointer_attribute = get("cuPointerGetAttribute");
    MEASURE("pointer_attribute", 1000, pointer_attribute(&a, 2, warm));
    return 0;
}
