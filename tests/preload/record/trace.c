/* Logs which driver functions a program asks for, and how: a preloaded library for recording only.
 *
 * One line an event in the file named by TRACE_OUT: `dlsym NAME`, `proc NAME VERSION FLAGS` (cuGetProcAddress),
 * `table UUID SIZE` (cuGetExportTable; the size word at the table's start). x86-64 only. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*get_proc_v1)(const char*, void**, int, uint64_t);
typedef int (*get_proc_v2)(const char*, void**, int, uint64_t, int*);
typedef int (*get_table)(const void**, const unsigned char*);

__attribute__((visibility("hidden"))) void* real_dlsym;
static get_proc_v1 real_v1;
static get_proc_v2 real_v2;
static get_table real_table;

static void note(const char* line) {
    const char* path = getenv("TRACE_OUT");
    if (path == NULL) return;
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0) return;
    if (write(file, line, strlen(line)) < 0) abort();
    close(file);
}

static int hook_v1(const char* name, void** result, int version, uint64_t flags);
static int hook_v2(const char* name, void** result, int version, uint64_t flags, int* status);

static int hook_table(const void** table, const unsigned char* uuid) {
    int rc = real_table(table, uuid);
    char line[96], *at = line + sprintf(line, "table ");
    for (int i = 0; i < 16; ++i) at += sprintf(at, "%02x", uuid[i]);
    sprintf(at, " %llu\n", rc == 0 ? (unsigned long long)*(const uint64_t*)*table : 0ULL);
    note(line);
    return rc;
}

/* The hook for a real address, or the address itself. */
static void* hooked(void* real) {
    if (real != NULL && real == (void*)real_v1) return (void*)hook_v1;
    if (real != NULL && real == (void*)real_v2) return (void*)hook_v2;
    if (real != NULL && real == (void*)real_table) return (void*)hook_table;
    return real;
}

static void note_proc(const char* name, int version, uint64_t flags) {
    char line[160];
    snprintf(line, sizeof line, "proc %s %d %llu\n", name, version, (unsigned long long)flags);
    note(line);
}

static int hook_v1(const char* name, void** result, int version, uint64_t flags) {
    note_proc(name, version, flags);
    int rc = real_v1(name, result, version, flags);
    if (rc == 0 && result != NULL) *result = hooked(*result);
    return rc;
}

static int hook_v2(const char* name, void** result, int version, uint64_t flags, int* status) {
    note_proc(name, version, flags);
    int rc = real_v2(name, result, version, flags, status);
    if (rc == 0 && result != NULL) *result = hooked(*result);
    return rc;
}

/* Called by the trampoline: what dlsym shall answer, or null for a tail jump to the real one. */
__attribute__((visibility("hidden"))) void* decide(void* handle, const char* name) {
    if (real_dlsym == NULL) real_dlsym = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    int driver = strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z';
    if ((!driver && strncmp(name, "nvml", 4) != 0) || handle == RTLD_NEXT) return NULL;
    char line[160];
    snprintf(line, sizeof line, "dlsym %s\n", name);
    note(line);
    void* real = ((void* (*)(void*, const char*))real_dlsym)(handle, name);
    if (strcmp(name, "cuGetProcAddress") == 0) real_v1 = (get_proc_v1)real;
    if (strcmp(name, "cuGetProcAddress_v2") == 0) real_v2 = (get_proc_v2)real;
    if (strcmp(name, "cuGetExportTable") == 0) real_table = (get_table)real;
    if (driver && real_v2 == NULL) real_v2 = (get_proc_v2)((void* (*)(void*, const char*))real_dlsym)(handle, "cuGetProcAddress_v2");
    if (driver && real_table == NULL) real_table = (get_table)((void* (*)(void*, const char*))real_dlsym)(handle, "cuGetExportTable");
    return hooked(real);
}

__asm__(
    ".text\n.globl dlsym\n.type dlsym,@function\ndlsym:\n"
    "  push %rdi\n  push %rsi\n  sub $8, %rsp\n"
    "  call decide\n"
    "  add $8, %rsp\n  pop %rsi\n  pop %rdi\n"
    "  test %rax, %rax\n  jz 1f\n  ret\n"
    "1: jmp *real_dlsym(%rip)\n.size dlsym, .-dlsym\n");
