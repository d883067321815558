// Contexts of the stand-in.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

namespace standin {

std::vector<Context*>& context_stack() {
    static thread_local std::vector<Context*> stack;
    return stack;
}

Context* current() {
    if (context_stack().empty()) return nullptr;
    Context* top = context_stack().back();
    return top;
}

Context* current_owner() {
    Context* context = current();
    return context != nullptr && context->face_of != nullptr ? context->face_of : context;
}

std::uint64_t fresh_address(std::uint64_t bytes) {
    const auto spare = driver().spare_addresses.find(rounded(bytes == 0 ? 1 : bytes, large_page));
    if (spare != driver().spare_addresses.end()) {
        const std::uint64_t again = spare->second;
        driver().spare_addresses.erase(spare);
        return again;
    }
    const std::uint64_t address = driver().next_address;
    driver().next_address += rounded(bytes == 0 ? 1 : bytes, large_page);
    return address;
}

void give_address(std::uint64_t address, std::uint64_t bytes) {
    driver().spare_addresses.emplace(rounded(bytes == 0 ? 1 : bytes, large_page), address);
}

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t step) {
    return (bytes + step - 1) / step * step;
}

namespace {

int enliven(Context* context) {
    if (!take_overhead(card(context->device), context_bytes)) return out_of_memory;
    driver().contexts.insert(context);
    count_context(card(context->device), 1);
    context->destroyed = false;
    return success;
}

int created(void** context, int device) {
    if (context == nullptr) return invalid_value;
    if (!known(device)) return invalid_device;
    std::vector<Context*>& spare = driver().spare_contexts;
    if (spare.empty()) spare.push_back(new Context{.device = device});
    Context* made = spare.back();
    *made = {.device = device};
    const int status = enliven(made);
    if (status != success) return status;
    spare.pop_back();
    context_stack().push_back(made);
    *context = made;
    return success;
}

std::uint64_t stack_bytes(std::uint64_t each) {
    return each * multiprocessors * threads_per_multiprocessor;
}

}  // namespace

void destroy_context(Context* context, Farewells& farewells) {
    Driver& d = driver();
    farewells.take(context);
    for (auto at = d.blocks.begin(); at != d.blocks.end();) {
        const bool dies = at->second.context == context;
        if (dies) give_blocks(card(at->second.device), at->second.taken);
        if (dies && at->second.taken != 0) give_address(at->first, at->second.taken);
        at = dies ? d.blocks.erase(at) : std::next(at);
    }
    for (auto at = d.arrays.begin(); at != d.arrays.end();) {
        const bool dies = at->second.context == context;
        if (dies) give_blocks(card(context->device), at->second.taken);
        if (dies) drop_tiles(at->second);
        at = dies ? d.arrays.erase(at) : std::next(at);
    }
    give_blocks(card(context->device), large_page * context->small.size());
    give_overhead(card(context->device),
                  context_bytes + stack_bytes(context->limits[0]) - stack_bytes(1024));
    count_context(card(context->device), -1);
    d.contexts.erase(context);
    if (context->primary)
        *context = {.device = context->device, .primary = true};
    else
        std::erase(context_stack(), context);
    if (!context->primary) d.spare_contexts.push_back(context);
    synchronize();
}

Context* primary_of(int device) {
    Context*& primary = driver().primary[device];
    if (primary == nullptr) primary = new Context{.device = device, .primary = true};
    return primary;
}

}  // namespace standin

using namespace standin;

extern "C" {

int cuDevicePrimaryCtxRetain(void** context, int device) {
    COUNT_CALL("cuDevicePrimaryCtxRetain");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    if (context == nullptr) return invalid_value;
    Context* primary = primary_of(device);
    const int status = primary->destroyed ? enliven(primary) : success;
    if (status != success) return status;
    ++driver().retained[device];
    *context = primary;
    return success;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    COUNT_CALL("cuDevicePrimaryCtxRelease_v2");
    Farewells farewells;
    NEEDS_INIT();
    if (!known(device) || driver().retained[device] == 0) return invalid_context;
    if (--driver().retained[device] > 0) return success;
    destroy_context(primary_of(device), farewells);
    return success;
}

int cuDevicePrimaryCtxRelease(int device) {
    COUNT_CALL("cuDevicePrimaryCtxRelease");
    return cuDevicePrimaryCtxRelease_v2(device);
}

int cuDevicePrimaryCtxReset_v2(int device) {
    COUNT_CALL("cuDevicePrimaryCtxReset_v2");
    Farewells farewells;
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    if (!primary_of(device)->destroyed) destroy_context(primary_of(device), farewells);
    driver().retained[device] = 0;
    return success;
}

int cuDevicePrimaryCtxReset(int device) {
    COUNT_CALL("cuDevicePrimaryCtxReset");
    return cuDevicePrimaryCtxReset_v2(device);
}

int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    COUNT_CALL("cuDevicePrimaryCtxGetState");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    *flags = 0;
    *active = !primary_of(device)->destroyed;
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
    Farewells farewells;
    NEEDS_INIT();
    if (driver().contexts.count(context) == 0) return invalid_context;
    destroy_context(context, farewells);
    return success;
}

int cuCtxAttach(Context** context, unsigned flags) {
    COUNT_CALL("cuCtxAttach");
    NEEDS_INIT();
    if (context == nullptr || flags != 0) return invalid_value;
    if (current() == nullptr) return invalid_context;
    *context = current();
    ++current()->attached;
    return success;
}

int cuCtxDetach(Context* context) {
    COUNT_CALL("cuCtxDetach");
    Farewells farewells;
    NEEDS_INIT();
    if (driver().contexts.count(context) == 0) return invalid_context;
    if (context->attached-- == 0) destroy_context(context, farewells);
    return success;
}

int cuGreenCtxCreate(void** green, void* resources, int device, unsigned flags) {
    COUNT_CALL("cuGreenCtxCreate");
    NEEDS_INIT();
    if (green == nullptr || resources == nullptr || flags != 1) return invalid_value;
    if (!known(device)) return invalid_device;
    Context* primary = primary_of(device);
    const int status = primary->destroyed ? enliven(primary) : success;
    if (status != success) return status;
    ++driver().retained[device];
    auto* face = new Context{.device = device, .face_of = primary, .destroyed = false};
    driver().contexts.insert(face);
    *green = new char;
    driver().greens[*green] = face;
    return success;
}

int cuCtxFromGreenCtx(Context** context, void* green) {
    COUNT_CALL("cuCtxFromGreenCtx");
    NEEDS_INIT();
    const auto found = driver().greens.find(green);
    if (context == nullptr || found == driver().greens.end()) return invalid_value;
    *context = found->second;
    return success;
}

int cuGreenCtxDestroy(void* green) {
    COUNT_CALL("cuGreenCtxDestroy");
    NEEDS_INIT();
    const auto found = driver().greens.find(green);
    if (found == driver().greens.end()) return invalid_value;
    Context* face = found->second;
    driver().greens.erase(found);
    driver().contexts.erase(face);
    std::erase(context_stack(), face);
    return cuDevicePrimaryCtxRelease_v2(face->device);
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

int cuCtxGetApiVersion(Context* context, unsigned* version) {
    COUNT_CALL("cuCtxGetApiVersion");
    NEEDS_INIT();
    if (context == nullptr) context = current();
    if (driver().contexts.count(context) == 0) return invalid_context;
    *version = 3020;
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

int cuCtxSynchronize_v2(Context* context) {
    COUNT_CALL("cuCtxSynchronize_v2");
    wait_for_work();
    NEEDS_INIT();
    if (driver().contexts.count(context) == 0) return invalid_context;
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

int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
    COUNT_CALL("cuDevicePrimaryCtxSetFlags_v2");
    NEEDS_INIT();
    return known(device) ? success : invalid_device;
}
}
