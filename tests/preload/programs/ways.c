/* Fills the share of card 0 through driver functions that are got by one way, in steps of 2 MiB, then asks for 1 MiB more:
 *   ways WAY [FILE [MOST]]  prints status of cuInit, blocks, the status that ended it, the last status, the driver's version
 * FILE: the library that is opened. MOST: blocks at which it ends although more could be had.
 * Built with LINKED it refers to the functions by name; built with PLUGIN it is a library that does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Function)();

enum { init, retain, set_current, allocate, version, functions };
static const char* names[functions] = {"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc_v2",
                                       "cuDriverGetVersion"};
static const char* base_names[functions] = {"cuInit", "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuMemAlloc",
                                            "cuDriverGetVersion"};

static void* must(void* found, const char* what) {
    if (found == NULL) {
        const char* reason = dlerror();
        fprintf(stderr, "%s: %s\n", what, reason == NULL ? "no reason" : reason);
        exit(9);
    }
    return found;
}

static void fill(Function function[functions], long most) {
    void* context;
    unsigned long block;
    int number = 0, status = 0;
    long blocks = 0;
    int first = function[init](0);
    function[retain](&context, 0);
    function[set_current](context);
    while (blocks < most && (status = function[allocate](&block, 2ul << 20)) == 0)
        ++blocks;
    int last = function[allocate](&block, 1ul << 20);
    function[version](&number);
    printf("%d %ld %d %d %d\n", first, blocks, status, last, number);
    fflush(stdout);
}

static void by_symbol(void* scope, Function function[functions]) {
    for (int i = 0; i < functions; ++i)
        function[i] = (Function)must(dlsym(scope, names[i]), names[i]);
}

static void by_look_up(void* library, Function function[functions]) {
    Function look_up = (Function)must(dlsym(library, "cuGetProcAddress_v2"), "cuGetProcAddress_v2");
    for (int i = 0; i < functions; ++i) {
        void* found = NULL;
        int status = look_up(base_names[i], &found, 12000, 0ul, NULL);
        function[i] = (Function)(status == 0 ? must(found, names[i]) : NULL);
    }
}

#if defined(LINKED) || defined(PLUGIN)
int cuInit(unsigned), cuDevicePrimaryCtxRetain(void**, int), cuCtxSetCurrent(void*), cuDriverGetVersion(int*);
int cuMemAlloc_v2(unsigned long*, unsigned long);
static Function linked[functions] = {(Function)cuInit, (Function)cuDevicePrimaryCtxRetain, (Function)cuCtxSetCurrent,
                                     (Function)cuMemAlloc_v2, (Function)cuDriverGetVersion};
#endif

#ifdef PLUGIN
void run(long most) {
    fill(linked, most);
}

void run_next(long most) {
    Function function[functions];
    by_symbol(RTLD_NEXT, function);
    fill(function, most);
}
#else
static void call(const char* file, int flags, const char* name, long most) {
    ((void (*)(long))must(dlsym(must(dlopen(file, flags), file), name), name))(most);
}

int main(int count, char** arguments) {
    Function function[functions];
    const char* way = arguments[1];
    const char* file = count > 2 ? arguments[2] : "libcuda.so.1";
    long most = count > 3 ? atol(arguments[3]) : 1l << 30;
#ifdef LINKED
    if (strcmp(way, "link") == 0) return fill(linked, most), 0;
    if (strcmp(way, "nothing") == 0) return printf("%d\n", linked[init] != NULL), 0;
    if (strcmp(way, "next") == 0) by_symbol(RTLD_NEXT, function);
    if (strcmp(way, "default") == 0) by_symbol(RTLD_DEFAULT, function);
#else
    if (strcmp(way, "global") == 0) by_symbol(must(dlopen(file, RTLD_NOW | RTLD_GLOBAL), file), function);
    if (strcmp(way, "private") == 0) by_symbol(must(dlopen(file, RTLD_LAZY | RTLD_LOCAL), file), function);
    if (strcmp(way, "namespace") == 0) by_symbol(must(dlmopen(LM_ID_NEWLM, file, RTLD_NOW), file), function);
    if (strcmp(way, "look-up") == 0) by_look_up(must(dlopen(file, RTLD_LAZY | RTLD_LOCAL), file), function);
    if (strcmp(way, "deep") == 0) return call(file, RTLD_NOW | RTLD_DEEPBIND, "run", most), 0;
    if (strcmp(way, "plugin") == 0) return call(file, RTLD_NOW, "run", most), 0;
    if (strcmp(way, "plugin next") == 0) return call(file, RTLD_NOW, "run_next", most), 0;
    if (strcmp(way, "two") == 0) { /* half of 256 blocks here, the rest in another namespace */
        by_symbol(must(dlopen(file, RTLD_LAZY), file), function);
        fill(function, 128);
        by_symbol(must(dlmopen(LM_ID_NEWLM, file, RTLD_NOW), file), function);
    }
#endif
    fill(function, most);
    return 0;
}
#endif
