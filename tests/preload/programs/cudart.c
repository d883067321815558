/* Takes all memory of device 0 through NVIDIA's CUDA runtime, one kind after the other, and 1 MiB more of each; then by
 * two threads at once; then again after a reset. Prints what each step answered, as JSON.
 *
 * The few functions of the runtime are declared here: its wheel has no complete set of headers. */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef void* Stream;
struct Array;
struct Pool;
struct Channel {
    int x, y, z, w, kind;
};
struct PoolProperties {
    int allocation, handles, location, device;
    void* security;
    unsigned char reserved[64];
};

int cudaMalloc(void**, size_t), cudaFree(void*), cudaMemGetInfo(size_t*, size_t*);
int cudaMallocManaged(void**, size_t, unsigned), cudaMallocPitch(void**, size_t*, size_t, size_t);
int cudaMallocArray(struct Array**, const struct Channel*, size_t, size_t, unsigned), cudaFreeArray(struct Array*);
int cudaMallocAsync(void**, size_t, Stream), cudaFreeAsync(void*, Stream);
int cudaMallocAsync_ptsz(void**, size_t, Stream), cudaFreeAsync_ptsz(void*, Stream);
int cudaMemPoolCreate(struct Pool**, const struct PoolProperties*), cudaMemPoolDestroy(struct Pool*);
int cudaMallocFromPoolAsync(void**, size_t, struct Pool*, Stream), cudaHostAlloc(void**, size_t, unsigned);
int cudaDeviceSynchronize(void), cudaDeviceReset(void), cudaGetLastError(void);
int cudaRuntimeGetVersion(int*), cudaDriverGetVersion(int*);
const char* cudaGetErrorName(int);

static const size_t mib = 1 << 20;

static void must(int status, const char* what) {
    if (status == 0) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(status));
    exit(1);
}

static size_t left(void) {
    size_t free = 0, total = 0;
    must(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return free;
}

static int managed(void** block, size_t bytes) {
    return cudaMallocManaged(block, bytes, 1);
}

static int pitched(void** block, size_t bytes) {
    size_t pitch;
    return cudaMallocPitch(block, &pitch, 1024, bytes / 1024);
}

static int array(void** block, size_t bytes) {
    struct Channel of_8_bits = {8, 0, 0, 0, 1};
    return cudaMallocArray((struct Array**)block, &of_8_bits, 4096, bytes / 4096, 0);
}

static int release_array(void* block) {
    return cudaFreeArray(block);
}

static int async(void** block, size_t bytes) {
    return cudaMallocAsync(block, bytes, NULL);
}

static int release_async(void* block) {
    return cudaFreeAsync(block, NULL);
}

static int async_per_thread(void** block, size_t bytes) {
    return cudaMallocAsync_ptsz(block, bytes, NULL);
}

static int release_per_thread(void* block) {
    return cudaFreeAsync_ptsz(block, NULL);
}

static struct Pool* pool;

static int from_pool(void** block, size_t bytes) {
    return cudaMallocFromPoolAsync(block, bytes, pool, NULL);
}

/* Takes steps until one is refused, asks for 1 MiB more, and gives all back. */
static void take_all(const char* kind, size_t step, int (*take)(void**, size_t), int (*release)(void*)) {
    enum { most = 4096 };
    static void* blocks[most];
    size_t before = left();
    int taken = 0, refused = 0, released = 0;
    while (taken < most - 1 && (refused = take(&blocks[taken], step)) == 0)
        ++taken;
    int beyond = take(&blocks[taken], mib);
    size_t at_the_end = left();
    for (int i = 0; i < taken + (beyond == 0); ++i)
        released += release(blocks[i]) == 0;
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); /* pools give back what is free */
    cudaGetLastError();
    printf("\"%s\": {\"taken\": %zu, \"refused\": %d, \"beyond\": %d, \"left\": %zu, \"back\": %d}, ", kind,
           step * (size_t)taken, refused, beyond, at_the_end, released >= taken && left() == before);
}

static void* take_some(void* taken) {
    void* block;
    while (cudaMalloc(&block, 2 * mib) == 0)
        *(size_t*)taken += 2 * mib;
    return NULL;
}

static size_t take_by_two(void) {
    size_t taken[2] = {0, 0};
    pthread_t threads[2];
    for (int i = 0; i < 2; ++i)
        must(pthread_create(&threads[i], NULL, take_some, &taken[i]), "pthread_create");
    for (int i = 0; i < 2; ++i)
        pthread_join(threads[i], NULL);
    return taken[0] + taken[1];
}

int main(void) {
    int runtime = 0, driver = 0;
    size_t whole = left(), unused, total;
    struct PoolProperties on_device_0 = {.allocation = 1, .location = 1};
    void* block;
    must(cudaMemGetInfo(&unused, &total), "cudaMemGetInfo");
    must(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
    must(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    must(cudaMemPoolCreate(&pool, &on_device_0), "cudaMemPoolCreate");
    printf("{\"runtime\": %d, \"driver\": %d, \"whole\": %zu, \"total\": %zu, ", runtime, driver, whole, total);
    take_all("linear", 20 * mib, cudaMalloc, cudaFree);
    take_all("managed", 20 * mib, managed, cudaFree);
    take_all("pitched", 20 * mib, pitched, cudaFree);
    take_all("array", 20 * mib, array, release_array);
    take_all("async", 32 * mib, async, release_async); /* what a pool grows by */
    take_all("per thread", 32 * mib, async_per_thread, release_per_thread);
    take_all("pool", 32 * mib, from_pool, release_async);
    must(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
    must(cudaHostAlloc(&block, 20 * mib, 0), "cudaHostAlloc");
    printf("\"host\": %d, ", left() == whole);
    printf("\"threads\": %zu, ", take_by_two());
    printf("\"name\": \"%s\", ", cudaGetErrorName(cudaMalloc(&block, mib)));
    must(cudaDeviceReset(), "cudaDeviceReset");
    printf("\"reset\": %d, ", left() == whole);
    printf("\"after\": %d}\n", cudaMalloc(&block, whole / (2 * mib) * 2 * mib));
    return 0;
}
