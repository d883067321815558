// Notes, in a process into which it is preloaded, what a power cut may leave of its files: which
// were synced, which names were, and what was under a name before (power_cut.py). A name is noted
// behind the call that gave it: who is killed in between has not been answered yet.
//
// POWER_CUT_NOTES: a folder for the notes. POWER_CUT_FOLDER: what lies below is noted, the rest is
// not. POWER_CUT_NO_SYNC: a file system that syncs nothing, and says that it did.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int is_noted(const char* path) {
    const char* folder = getenv("POWER_CUT_FOLDER");
    return folder != NULL && path != NULL && strncmp(path, folder, strlen(folder)) == 0;
}

// One line, written as a whole: `kind inode path`.
static void note(char kind, unsigned long long inode, const char* path) {
    char file[PATH_MAX], line[PATH_MAX + 64];
    snprintf(file, sizeof file, "%s/notes", getenv("POWER_CUT_NOTES"));
    const int size = snprintf(line, sizeof line, "%c %llu %s\n", kind, inode, path);
    const int notes = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (notes < 0 || write(notes, line, (size_t)size) != size) abort();
    close(notes);
}

static unsigned long long inode_of(const char* path) {
    struct stat facts;
    return lstat(path, &facts) == 0 ? facts.st_ino : 0;
}

// Keeps the content under a name of its own, whatever becomes of the name that it has.
static void keep(const char* path, unsigned long long inode) {
    char kept[PATH_MAX];
    snprintf(kept, sizeof kept, "%s/%llu", getenv("POWER_CUT_NOTES"), inode);
    if (link(path, kept) != 0) abort();  // nobody else has its number, as long as this one is there
}

int rename(const char* from, const char* to) {
    int (*real)(const char*, const char*) =
        (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
    if (!is_noted(to)) return real(from, to);
    pthread_mutex_lock(&mutex);
    const unsigned long long inode = inode_of(from);
    keep(from, inode);
    const int end = real(from, to);
    if (end == 0) note('R', inode, to);
    pthread_mutex_unlock(&mutex);
    return end;
}

int unlink(const char* path) {
    int (*real)(const char*) = (int (*)(const char*))dlsym(RTLD_NEXT, "unlink");
    const int end = real(path);
    if (end == 0 && is_noted(path)) note('U', 0, path);
    return end;
}

int fsync(int file) {
    char link_name[64], path[PATH_MAX];
    struct stat facts;
    if (getenv("POWER_CUT_NO_SYNC") != NULL) return 0;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const int end = real(file);
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", file);
    const ssize_t size = readlink(link_name, path, sizeof path - 1);
    if (end != 0 || size < 0 || fstat(file, &facts) != 0) return end;
    path[size] = '\0';
    if (is_noted(path)) note(S_ISDIR(facts.st_mode) ? 'D' : 'S', facts.st_ino, path);
    return end;
}
