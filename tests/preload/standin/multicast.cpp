// Multicast objects of the stand-in: a binding holds its memory until it is unbound or the object
// is gone, which lives as long as a handle, a mapping or a descriptor does (as in NVIDIA's open
// kernel module). Whoever binds or maps waits until all devices have been added.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

namespace standin {
namespace {

struct Properties {
    unsigned devices;
    std::uint64_t bytes;
    std::uint64_t handle_types;
    std::uint64_t flags;
};

Physical* find(std::uint64_t handle) {
    const auto at = driver().handles.find(handle);
    return at == driver().handles.end() ? nullptr : at->second;
}

Physical* object_of(std::uint64_t handle) {
    Physical* found = find(handle);
    return found == nullptr || found->team == nullptr ? nullptr : found;
}

bool whole(std::uint64_t offset, std::uint64_t bytes, std::uint64_t room) {
    return offset % large_page == 0 && bytes % large_page == 0 && bytes != 0 && offset <= room &&
           bytes <= room - offset;
}

bool is_free(const Team& team, int device, std::uint64_t offset, std::uint64_t bytes) {
    for (const auto& [place, binding] : team.bindings)
        if (place.first == device && place.second < offset + bytes &&
            offset < place.second + binding.bytes)
            return false;
    return true;
}

int bind(Physical* object, std::uint64_t offset, Physical* memory, std::uint64_t memory_offset,
         std::uint64_t bytes, std::uint64_t flags) {
    if (object == nullptr || memory == nullptr || memory->team != nullptr || flags != 0 ||
        !whole(offset, bytes, object->bytes) || !whole(memory_offset, bytes, memory->bytes) ||
        !is_free(*object->team, memory->device, offset, bytes))
        return invalid_value;
    if (!object->team->devices.contains(memory->device)) return invalid_device;
    object->team->bindings[{memory->device, offset}] = {bytes, memory};
    ++memory->bindings;
    return success;
}

}  // namespace

void wait_for_team(std::uint64_t handle) {
    for (bool is_ready = false; !is_ready; sched_yield()) {
        const std::lock_guard guard(driver().lock);
        const Physical* object = object_of(handle);
        is_ready = object == nullptr || object->team->devices.size() == object->team->wanted;
    }
}

}  // namespace standin

using namespace standin;

extern "C" {

int cuMulticastGetGranularity(std::uint64_t* bytes, const void*, int) {
    COUNT_CALL("cuMulticastGetGranularity");
    *bytes = large_page;
    return success;
}

int cuMulticastCreate(std::uint64_t* handle, const Properties* properties) {
    COUNT_CALL("cuMulticastCreate");
    NEEDS_INIT();
    if (handle == nullptr || properties == nullptr || properties->flags != 0 ||
        properties->devices == 0 || !whole(0, properties->bytes, properties->bytes))
        return invalid_value;
    auto* made = new Physical{-1, properties->bytes};
    made->team = std::make_unique<Team>(properties->devices);
    *handle = reinterpret_cast<std::uint64_t>(made);
    driver().handles[*handle] = made;
    return success;
}

int cuMulticastAddDevice(std::uint64_t handle, int device) {
    COUNT_CALL("cuMulticastAddDevice");
    NEEDS_INIT();
    Physical* object = object_of(handle);
    if (object == nullptr || object->team->devices.size() == object->team->wanted)
        return invalid_value;
    if (!known(device) || !object->team->devices.insert(device).second) return invalid_device;
    return success;
}

int cuMulticastBindMem(std::uint64_t handle, std::uint64_t offset, std::uint64_t memory,
                       std::uint64_t memory_offset, std::uint64_t bytes, std::uint64_t flags) {
    COUNT_CALL("cuMulticastBindMem");
    wait_for_team(handle);
    NEEDS_INIT();
    return bind(object_of(handle), offset, find(memory), memory_offset, bytes, flags);
}

int cuMulticastBindAddr(std::uint64_t handle, std::uint64_t offset, std::uint64_t address,
                        std::uint64_t bytes, std::uint64_t flags) {
    COUNT_CALL("cuMulticastBindAddr");
    wait_for_team(handle);
    NEEDS_INIT();
    auto at = driver().mappings.upper_bound(address);
    if (at == driver().mappings.begin()) return invalid_value;
    --at;
    return bind(object_of(handle), offset, at->second.second, address - at->first, bytes, flags);
}

int cuMulticastUnbind(std::uint64_t handle, int device, std::uint64_t offset, std::uint64_t bytes) {
    COUNT_CALL("cuMulticastUnbind");
    NEEDS_INIT();
    Physical* object = object_of(handle);
    if (object == nullptr || !whole(offset, bytes, object->bytes)) return invalid_value;
    if (!object->team->devices.contains(device)) return invalid_device;
    auto& bindings = object->team->bindings;
    auto at = bindings.lower_bound({device, offset});
    int status = invalid_value;  // where nothing is bound
    while (at != bindings.end() && at->first.first == device &&
           at->first.second + at->second.bytes <= offset + bytes) {
        Physical* memory = at->second.memory;
        at = bindings.erase(at);
        --memory->bindings;
        drop_if_unused(memory);
        status = success;
    }
    return status;
}
}
