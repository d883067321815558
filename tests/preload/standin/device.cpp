// The driver as a whole and its devices.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace standin {

Driver& driver() {
    static auto* made = new Driver;
    return *made;
}

bool known(int device) {
    return device >= 0 && device < static_cast<int>(driver().visible.size());
}

int card(int device) {
    return driver().visible[static_cast<std::size_t>(device)];
}

namespace {

// Whether DRAWBRIDGE_STANDIN_LACKS names an attribute; numbers with commas between.
bool lacks(int attribute) {
    for (const char* at = std::getenv("DRAWBRIDGE_STANDIN_LACKS"); at != nullptr;) {
        if (std::atoi(at) == attribute) return true;
        at = std::strchr(at, ',');
        if (at != nullptr) ++at;
    }
    return false;
}

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

}  // namespace
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
        case 112:
        case 115:
        case 132:
            *value = lacks(attribute) ? 0 : 1;
            break;  // unified addressing, virtual memory, sparse arrays, pools, multicast objects
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

int cuDeviceGetPCIBusId(char* text, int length, int device) {
    COUNT_CALL("cuDeviceGetPCIBusId");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", card(device) + 6);
    return success;
}
}
