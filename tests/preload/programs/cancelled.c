/* A thread that is cancelled while a launch waits: the driver's launch is no place where it ends. Prints "cancelled"
 * when it was, and after a line of input whether its launch came to an end, and the answer to another thread's. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern int cuInit(unsigned), cuCtxSynchronize(void), cuDevicePrimaryCtxRetain(void**, int), cuCtxSetCurrent(void*);
extern int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
extern int cuModuleGetFunction(void**, void*, const char*);

static void *context, *function;
static volatile int thread_id, ended;

static int launch(unsigned blocks) {
    return cuLaunchKernel(function, blocks, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void* work(void* unused) {
    cuCtxSetCurrent(context);
    thread_id = (int)syscall(SYS_gettid);
    launch(1);
    ended = 1;
    for (;;) pthread_testcancel();
    return unused;
}

static int sleeps(int id) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    FILE* file = fopen(path, "r");
    if (file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) != 1) state = 0;
    if (file != NULL) fclose(file);
    return state == 'S';
}

int main(void) {
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context, 0);
    cuCtxSetCurrent(context);
    cuModuleGetFunction(&function, NULL, NULL);
    launch(100000); /* at the hundredth part a debt of ten seconds */
    launch(1);
    cuCtxSynchronize();
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    while (thread_id == 0 || !sleeps(thread_id)) usleep(1000);
    pthread_cancel(thread);
    puts("cancelled");
    fflush(stdout);
    getchar();
    pthread_join(thread, NULL);
    const int before = ended;
    printf("%d %d\n", before, launch(1));
    return 0;
}
