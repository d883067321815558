#include "preload/process.hpp"

#include "preload/os.hpp"
#include "preload/place.hpp"
#include "preload/resolve.hpp"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

namespace preload {

constinit Process process;

namespace {

Mutex starting;

Mode refuse(const char* folder, const char* reason) {
    snprintf(process.problem.text, sizeof process.problem.text, "%s: %s", folder, reason);
    return Mode::refused;
}

// Folders that hold no limits are no shares: mount points of another claim's may be on their way
// out.
Mode open_all(const char* folder, DIR* list) {
    while (const dirent* entry = readdir(list)) {
        if (entry->d_name[0] == '.') continue;
        if (process.share_count == max_shares) return refuse(folder, "more than 16 shares");
        char path[208];
        const int length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (length < 0 || static_cast<size_t>(length) >= sizeof path)
            return refuse(folder, "name too long");
        if (!open_share(path, process.shares[process.share_count], process.problem))
            return Mode::refused;
        ++process.share_count;
    }
    return process.share_count == 0 ? refuse(folder, "holds no share") : Mode::ready;
}

// Several shares of one device are used one after the other, and shown as one.
void chain() {
    for (int share = 0; share < process.share_count; ++share)
        for (int later = process.share_count - 1; later > share; --later)
            if (memcmp(process.shares[share].limits->device_uuid,
                       process.shares[later].limits->device_uuid, 16) == 0)
                process.shares[share].next = later;
}

Mode find_shares() {
    char root[160];
    if (!find_root(root, sizeof root)) return Mode::dormant;
    char folder[192];
    snprintf(folder, sizeof folder, "%s/%s", root, DRAWBRIDGE_SHARES_FOLDER);
    const KeepErrno keep;
    DIR* list = opendir(folder);
    if (list == nullptr) {
        if (strcmp(root, DRAWBRIDGE_ROOT) != 0)
            return Mode::dormant;  // somebody tries the library by hand
        return refuse(folder, "cannot be read");
    }
    const Mode mode = open_all(folder, list);
    closedir(list);
    chain();
    return mode;
}

}  // namespace

Mode load_shares() {
    const Mode mode = mode_now();
    if (mode != Mode::unknown) return mode;
    // The lock on a slot belongs to who opened the ledger: a child opens it anew, also one that
    // another thread forks before all is open here.
    follow_forks();
    const Guard guard(starting);
    if (mode_now() == Mode::unknown) set_mode(find_shares());
    return mode_now();
}

int share_of_uuid(const uint8_t (&uuid)[16]) {
    for (int share = 0; share < process.share_count; ++share)
        if (memcmp(process.shares[share].limits->device_uuid, uuid, sizeof uuid) == 0) return share;
    return -1;
}

int current_device() {
    if (process.device_count == 1) return 0;
    int device = -1;
    if (helpers.context_device == nullptr || helpers.context_device(&device) != cuda_success)
        return -1;
    return device;
}

uint64_t current_context() {
    void* context = nullptr;
    if (helpers.context_current == nullptr || helpers.context_current(&context) != cuda_success)
        return 0;
    return reinterpret_cast<uint64_t>(context);
}

void forget_parent() {
    for (Share& share : process.shares)
        close_share(share);
    process = Process{};
    starting = Mutex{};
}

}  // namespace preload
