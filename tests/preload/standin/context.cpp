// Devices, contexts, streams and events of the stand-in.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

namespace standin {

Driver& driver() {
    static auto* made = new Driver;
    return *made;
}

std::vector<Context*>& context_stack() {
    static thread_local std::vector<Context*> stack;
    return stack;
}

Context* current() {
    if (context_stack().empty()) return nullptr;
    Context* top = context_stack().back();
    return top;
}

std::uint64_t fresh_address(std::uint64_t bytes) {
    const std::uint64_t address = driver().next_address;
    driver().next_address += rounded(bytes == 0 ? 1 : bytes, large_page);
    return address;
}

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t step) {
    return (bytes + step - 1) / step * step;
}

namespace {

// CUDA_VISIBLE_DEVICES as a list of ordinals, which may reorder.
std::vector<int> visible_cards() {
    std::vector<int> cards;
    const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
    for (std::uint32_t card = 0; text == nullptr && card < world().devices; ++card)
        cards.push_back(static_cast<int>(card));
    for (const char* at = text; at != nullptr && *at != '\0';) {
        const int card = std::atoi(at);
        if (card < 0 || card >= static_cast<int>(world().devices)) break;
        cards.push_back(card);
        at = std::strchr(at, ',');
        if (at != nullptr) ++at;
    }
    return cards;
}

bool known(int device) {
    return device >= 0 && device < static_cast<int>(driver().visible.size());
}
int card(int device) {
    return driver().visible[static_cast<std::size_t>(device)];
}

int make_context(void** context, int device, bool primary) {
    if (context == nullptr) return invalid_value;
    if (!known(device)) return invalid_device;
    if (!take_overhead(card(device), context_bytes)) return out_of_memory;
    auto* made =
        new Context{device, primary, 1024, {1024, 8650752, 8388608, 2, 2048, 128, 0, 0}, {}, false};
    driver().contexts.insert(made);
    count_context(card(device), 1);
    *context = made;
    return success;
}

int created(void** context, int device) {
    const int status = make_context(context, device, false);
    if (status == success) context_stack().push_back(static_cast<Context*>(*context));
    return status;
}

std::uint64_t stack_bytes(std::uint64_t each) {
    return each * multiprocessors * threads_per_multiprocessor;
}

}  // namespace

void destroy_context(Context* context) {
    Driver& d = driver();
    for (auto at = d.blocks.begin(); at != d.blocks.end();) {
        const bool dies = at->second.context == context;
        if (dies) give_blocks(card(at->second.device), at->second.taken);
        at = dies ? d.blocks.erase(at) : std::next(at);
    }
    for (auto at = d.arrays.begin(); at != d.arrays.end();) {
        const bool dies = at->second.context == context;
        if (dies) give_blocks(card(context->device), at->second.taken);
        at = dies ? d.arrays.erase(at) : std::next(at);
    }
    give_blocks(card(context->device), large_page * context->small.size());
    give_overhead(card(context->device),
                  context_bytes + stack_bytes(context->limits[0]) - stack_bytes(1024));
    count_context(card(context->device), -1);
    d.contexts.erase(context);
    context->destroyed = context->primary;
    if (!context->primary) std::erase(context_stack(), context);
    synchronize();
}

}  // namespace standin

using namespace standin;

extern "C" {

int cuInit(unsigned flags) {
    COUNT_CALL("cuInit");
    std::lock_guard guard(driver().lock);
    if (flags != 0) return invalid_value;
    if (driver().forked) return not_initialized;
    driver().visible = visible_cards();
    if (driver().visible.empty()) return 100;
    if (!driver().usable)
        pthread_atfork(nullptr, nullptr, [] {
            driver().usable = false;
            driver().forked = true;
        });
    driver().usable = true;
    holder();
    return success;
}

int cuDriverGetVersion(int* result) {
    COUNT_CALL("cuDriverGetVersion");
    if (result == nullptr) return invalid_value;
    *result = driver_version();
    return success;
}

int cuDeviceGetCount(int* count) {
    COUNT_CALL("cuDeviceGetCount");
    NEEDS_INIT();
    if (count == nullptr) return invalid_value;
    *count = static_cast<int>(driver().visible.size());
    return success;
}

int cuDeviceGet(int* device, int ordinal) {
    COUNT_CALL("cuDeviceGet");
    NEEDS_INIT();
    if (!known(ordinal)) return invalid_device;
    *device = ordinal;
    return success;
}

int cuDeviceGetName(char* name, int length, int device) {
    COUNT_CALL("cuDeviceGetName");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    std::strncpy(name, "Stand-in H200", static_cast<std::size_t>(length));
    return success;
}

int cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
    COUNT_CALL("cuDeviceGetUuid_v2");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    unsigned char made[16];
    uuid_of(card(device), made);
    std::memcpy(uuid, made, sizeof made);
    return success;
}

int cuDeviceGetUuid(unsigned char* uuid, int device) {
    return cuDeviceGetUuid_v2(uuid, device);
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
    COUNT_CALL("cuDeviceGetAttribute");
    NEEDS_INIT();
    if (value == nullptr) return invalid_value;
    if (!known(device)) return invalid_device;
    switch (attribute) {
        case 16:
            *value = multiprocessors;
            break;
        case 39:
            *value = threads_per_multiprocessor;
            break;
        case 75:
            *value = 9;
            break;
        case 1:
            *value = 1024;
            break;
        case 10:
            *value = 32;
            break;
        case 41:
        case 102:
        case 115:
            *value = 1;
            break;  // unified addressing, virtual memory, pools
        default:
            *value = 0;
    }
    return success;
}

int cuDeviceTotalMem_v2(std::uint64_t* bytes, int device) {
    COUNT_CALL("cuDeviceTotalMem_v2");
    NEEDS_INIT();
    if (bytes == nullptr) return invalid_value;
    if (!known(device)) return invalid_device;
    *bytes = world().bytes[card(device)];
    return success;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
    COUNT_CALL("cuDevicePrimaryCtxRetain");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    Context*& primary = driver().primary[device];
    void* made = primary;
    if (primary == nullptr) {
        const int status = make_context(&made, device, true);
        if (status != success) return status;
        primary = static_cast<Context*>(made);
    }
    ++driver().retained[device];
    *context = primary;
    return success;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    COUNT_CALL("cuDevicePrimaryCtxRelease_v2");
    NEEDS_INIT();
    if (!known(device) || driver().retained[device] == 0) return invalid_context;
    if (--driver().retained[device] > 0) return success;
    destroy_context(driver().primary[device]);
    driver().primary[device] = nullptr;
    return success;
}

int cuDevicePrimaryCtxReset_v2(int device) {
    COUNT_CALL("cuDevicePrimaryCtxReset_v2");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    if (driver().primary[device] != nullptr) destroy_context(driver().primary[device]);
    driver().primary[device] = nullptr;
    driver().retained[device] = 0;
    return success;
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    COUNT_CALL("cuDevicePrimaryCtxGetState");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    *flags = 0;
    *active = driver().primary[device] != nullptr;
    return success;
}

int cuCtxCreate_v2(void** context, unsigned, int device) {
    COUNT_CALL("cuCtxCreate_v2");
    NEEDS_INIT();
    return created(context, device);
}

int cuCtxCreate_v3(void** context, void*, int, unsigned, int device) {
    COUNT_CALL("cuCtxCreate_v3");
    NEEDS_INIT();
    return created(context, device);
}

int cuCtxCreate_v4(void** context, void*, unsigned, int device) {
    COUNT_CALL("cuCtxCreate_v4");
    NEEDS_INIT();
    return created(context, device);
}

int cuCtxDestroy_v2(Context* context) {
    COUNT_CALL("cuCtxDestroy_v2");
    NEEDS_INIT();
    if (driver().contexts.count(context) == 0) return invalid_context;
    destroy_context(context);
    return success;
}

int cuCtxSetCurrent(Context* context) {
    COUNT_CALL("cuCtxSetCurrent");
    NEEDS_INIT();
    if (!context_stack().empty()) context_stack().pop_back();
    if (context != nullptr) context_stack().push_back(context);
    return success;
}

int cuCtxPushCurrent_v2(Context* context) {
    COUNT_CALL("cuCtxPushCurrent_v2");
    NEEDS_INIT();
    if (driver().contexts.count(context) == 0) return invalid_context;
    context_stack().push_back(context);
    return success;
}

int cuCtxPopCurrent_v2(void** context) {
    COUNT_CALL("cuCtxPopCurrent_v2");
    NEEDS_INIT();
    if (current() == nullptr) return invalid_context;
    if (context != nullptr) *context = current();
    context_stack().pop_back();
    return success;
}

int cuCtxGetCurrent(void** context) {
    COUNT_CALL("cuCtxGetCurrent");
    NEEDS_INIT();
    *context = current();
    return success;
}

int cuCtxGetDevice(int* device) {
    COUNT_CALL("cuCtxGetDevice");
    NEEDS_INIT();
    if (current() == nullptr) return invalid_context;
    *device = current()->device;
    return success;
}

int cuCtxSynchronize() {
    COUNT_CALL("cuCtxSynchronize");
    wait_for_work();
    NEEDS_INIT();
    if (current() == nullptr) return invalid_context;
    synchronize();
    return success;
}

int cuCtxGetLimit(std::uint64_t* value, unsigned limit) {
    COUNT_CALL("cuCtxGetLimit");
    NEEDS_INIT();
    if (current() == nullptr) return invalid_context;
    if (limit >= 8) return invalid_value;
    *value = current()->limits[limit];
    return success;
}

int cuCtxSetLimit(unsigned limit, std::uint64_t value) {
    COUNT_CALL("cuCtxSetLimit");
    NEEDS_INIT();
    Context* context = current();
    if (context == nullptr) return invalid_context;
    if (limit >= 8) return invalid_value;
    const std::uint64_t before = limit == 0 ? stack_bytes(context->limits[0]) : 0;
    const std::uint64_t after = limit == 0 ? stack_bytes(value) : 0;
    if (after > before && !take_overhead(card(context->device), after - before))
        return out_of_memory;
    if (before > after) give_overhead(card(context->device), before - after);
    context->limits[limit] = value;
    return success;
}

int cuModuleGetLoadingMode(int* mode) {
    COUNT_CALL("cuModuleGetLoadingMode");
    *mode = 2;  // lazy
    return success;
}

int cuDeviceGetPCIBusId(char* text, int length, int device) {
    COUNT_CALL("cuDeviceGetPCIBusId");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", card(device) + 6);
    return success;
}

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
    COUNT_CALL("cuDevicePrimaryCtxSetFlags_v2");
    NEEDS_INIT();
    return known(device) ? success : invalid_device;
}
}
