/* Eight threads that begin at once: each finds the driver, initialises it and works with all that is shared in the library.
 * Prints how many calls had another status than was to be expected. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { threads = 8, rounds = 300 };
static pthread_barrier_t barrier;

typedef unsigned long Word;
#define FIND(name) int (*name)() = (int (*)())dlsym(cuda, #name)
#define EXPECT(status, wanted) wrong += (status) != (wanted)

static long work(void* cuda, void* nvml) {
    FIND(cuInit); FIND(cuDevicePrimaryCtxRetain); FIND(cuCtxSetCurrent); FIND(cuMemAlloc_v2); FIND(cuMemFree_v2); FIND(cuMemGetInfo_v2);
    FIND(cuMemAllocAsync); FIND(cuMemFreeAsync); FIND(cuMemCreate); FIND(cuMemRelease); FIND(cuMemAddressReserve); FIND(cuMemMap);
    FIND(cuMemUnmap); FIND(cuLaunchKernel); FIND(cuGetProcAddress); FIND(cuCtxSynchronize);
    int (*nvmlInit_v2)() = (int (*)())dlsym(nvml, "nvmlInit_v2");
    int (*handle_by_index)() = (int (*)())dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
    int (*memory_info)() = (int (*)())dlsym(nvml, "nvmlDeviceGetMemoryInfo");
    long wrong = 0;
    void *context, *device, *found;
    Word block, handle, place, free, total, info[3];
    int properties[8] = {1, 0, 1, 0};
    EXPECT(cuInit(0), 0);
    EXPECT(cuDevicePrimaryCtxRetain(&context, 0), 0);
    EXPECT(cuCtxSetCurrent(context), 0);
    EXPECT(nvmlInit_v2(), 0);
    EXPECT(handle_by_index(0, &device), 0);
    EXPECT(cuMemAddressReserve(&place, 2ul << 20, 0ul, 0ul, 0ul), 0);
    for (int round = 0; round < rounds; ++round) {
        EXPECT(cuMemAlloc_v2(&block, 1ul << 20), 0);
        EXPECT(cuMemFree_v2(block), 0);
        EXPECT(cuMemAlloc_v2(&block, 1ul << 40), 2);
        EXPECT(cuMemAllocAsync(&block, 1ul << 20, NULL), 0);
        EXPECT(cuMemFreeAsync(block, NULL), 0);
        EXPECT(cuMemCreate(&handle, 2ul << 20, properties, 0ul), 0);
        EXPECT(cuMemMap(place, 2ul << 20, 0ul, handle, 0ul), 0);
        EXPECT(cuMemRelease(handle), 0);
        EXPECT(cuMemUnmap(place, 2ul << 20), 0);
        EXPECT(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), 0);
        EXPECT(cuMemGetInfo_v2(&free, &total), 0);
        EXPECT(memory_info(device, info), 0);
        EXPECT(cuGetProcAddress("cuMemAlloc", &found, 11000, 0ul) != 0 || found != (void*)cuMemAlloc_v2, 0);
    }
    EXPECT(cuCtxSynchronize(), 0);
    return wrong;
}

static void* run(void* unused) {
    pthread_barrier_wait(&barrier);
    return (void*)work(dlopen("libcuda.so.1", RTLD_NOW), dlopen("libnvidia-ml.so.1", RTLD_NOW));
}

int main(void) {
    pthread_t thread[threads];
    long wrong = 0;
    pthread_barrier_init(&barrier, NULL, threads);
    for (int i = 0; i < threads; ++i)
        pthread_create(&thread[i], NULL, run, NULL);
    for (int i = 0; i < threads; ++i) {
        void* more;
        pthread_join(thread[i], &more);
        wrong += (long)more;
    }
    printf("%ld\n", wrong);
    return 0;
}
