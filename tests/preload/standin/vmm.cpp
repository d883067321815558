// Virtual memory management of the stand-in: physical memory lives while a handle, a mapping, a
// multicast object or an array holds it.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <cstring>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace standin {
namespace {

// What a descriptor says to whoever imports it. Bindings of another process's object are its own.
struct Exported {
    std::uint64_t bytes;
    unsigned wanted;  // devices of a multicast object
    unsigned devices;
};

std::uint64_t handle_of(const Physical* memory) {
    return reinterpret_cast<std::uint64_t>(memory);
}

bool within_reservation(std::uint64_t address, std::uint64_t bytes) {
    auto at = driver().reservations.upper_bound(address);
    if (at == driver().reservations.begin()) return false;
    --at;
    return address + bytes <= at->first + at->second;
}

// The first mapping that reaches into the range.
auto first_in(std::uint64_t address) {
    auto at = driver().mappings.upper_bound(address);
    if (at == driver().mappings.begin()) return at;
    const auto before = std::prev(at);
    return before->first + before->second.first > address ? before : at;
}

}  // namespace

void drop_if_unused(Physical* memory) {
    if (memory->references != 0 || memory->mappings != 0 || memory->bindings != 0 ||
        memory->tiles != 0 || memory->exports != 0)
        return;
    if (memory->device >= 0) give_blocks(card(memory->device), memory->bytes);
    if (memory->team != nullptr) {
        for (const auto& [place, binding] : memory->team->bindings) {
            --binding.memory->bindings;
            drop_if_unused(binding.memory);
        }
    }
    driver().handles.erase(handle_of(memory));
    delete memory;
}

}  // namespace standin

using namespace standin;

extern "C" {

int cuMemGetAllocationGranularity(std::uint64_t* bytes, const void*, int) {
    COUNT_CALL("cuMemGetAllocationGranularity");
    *bytes = large_page;
    return success;
}

int cuMemCreate(std::uint64_t* handle, std::uint64_t bytes, const std::uint32_t* properties,
                std::uint64_t flags) {
    COUNT_CALL("cuMemCreate");
    NEEDS_INIT();
    if (handle == nullptr || properties == nullptr || flags != 0 || bytes == 0 ||
        bytes % large_page != 0)
        return invalid_value;
    const bool on_device = properties[2] == 1;
    const int device = on_device ? static_cast<int>(properties[3]) : -1;
    if (on_device && device >= static_cast<int>(driver().visible.size())) return invalid_device;
    if (on_device && !take_blocks(card(device), bytes)) return out_of_memory;
    auto* made = new Physical{device, bytes, (properties[6] >> 16 & 1) != 0};
    *handle = handle_of(made);
    driver().handles[*handle] = made;
    return success;
}

int cuMemRelease(std::uint64_t handle) {
    COUNT_CALL("cuMemRelease");
    NEEDS_INIT();
    const auto at = driver().handles.find(handle);
    if (at == driver().handles.end() || at->second->references == 0) return invalid_value;
    --at->second->references;
    drop_if_unused(at->second);
    return success;
}

int cuMemExportToShareableHandle(int* descriptor, std::uint64_t handle, unsigned kind,
                                 std::uint64_t) {
    COUNT_CALL("cuMemExportToShareableHandle");
    NEEDS_INIT();
    const auto at = driver().handles.find(handle);
    if (kind != 1 || at == driver().handles.end()) return invalid_value;
    // glibc has a function for it since 2.27 only.
    *descriptor = static_cast<int>(syscall(SYS_memfd_create, "standin", MFD_CLOEXEC));
    Exported exported{at->second->bytes, 0, 0};
    if (at->second->team != nullptr) {
        exported.wanted = at->second->team->wanted;
        for (const int device : at->second->team->devices)
            exported.devices |= 1u << device;
    }
    if (*descriptor < 0 || write(*descriptor, &exported, sizeof exported) != sizeof exported)
        return invalid_value;
    ++at->second->exports;  // the descriptor holds the memory; this stand-in never sees it closed
    return success;
}

int cuMemImportFromShareableHandle(std::uint64_t* handle, void* descriptor, unsigned kind) {
    COUNT_CALL("cuMemImportFromShareableHandle");
    NEEDS_INIT();
    Exported exported;
    const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor));
    if (kind != 1 || pread(file, &exported, sizeof exported, 0) != sizeof exported)
        return invalid_value;
    auto* made = new Physical{-1, exported.bytes};
    if (exported.wanted != 0) made->team = std::make_unique<Team>(exported.wanted);
    for (int device = 0; exported.devices >> device != 0; ++device)
        if ((exported.devices >> device & 1) != 0) made->team->devices.insert(device);
    *handle = handle_of(made);
    driver().handles[*handle] = made;
    return success;
}

int cuMemRetainAllocationHandle(std::uint64_t* handle, std::uint64_t address) {
    COUNT_CALL("cuMemRetainAllocationHandle");
    NEEDS_INIT();
    const auto at = first_in(address);
    if (at == driver().mappings.end() || at->first > address) return invalid_value;
    ++at->second.second->references;
    *handle = handle_of(at->second.second);
    return success;
}

int cuMemAddressReserve(std::uint64_t* address, std::uint64_t bytes, std::uint64_t, std::uint64_t,
                        std::uint64_t) {
    COUNT_CALL("cuMemAddressReserve");
    NEEDS_INIT();
    if (address == nullptr || bytes == 0 || bytes % large_page != 0) return invalid_value;
    *address = fresh_address(bytes);
    driver().reservations[*address] = bytes;
    return success;
}

int cuMemAddressFree(std::uint64_t address, std::uint64_t bytes) {
    COUNT_CALL("cuMemAddressFree");
    NEEDS_INIT();
    const auto at = driver().reservations.find(address);
    if (at == driver().reservations.end() || at->second != bytes) return invalid_value;
    const auto mapping = first_in(address);
    if (mapping != driver().mappings.end() && mapping->first < address + bytes)
        return invalid_value;
    driver().reservations.erase(at);
    return success;
}

int cuMemMap(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset, std::uint64_t handle,
             std::uint64_t) {
    COUNT_CALL("cuMemMap");
    wait_for_team(handle);
    NEEDS_INIT();
    const auto at = driver().handles.find(handle);
    if (at == driver().handles.end() || !within_reservation(address, bytes)) return invalid_value;
    if (offset != 0 || bytes != at->second->bytes) return not_supported;
    const auto next = first_in(address);
    if (next != driver().mappings.end() && next->first < address + bytes) return invalid_value;
    driver().mappings[address] = {bytes, at->second};
    ++at->second->mappings;
    return success;
}

int cuMemSetAccess(std::uint64_t, std::uint64_t, const void*, std::uint64_t) {
    COUNT_CALL("cuMemSetAccess");
    return success;
}

int cuMemUnmap(std::uint64_t address, std::uint64_t bytes) {
    COUNT_CALL("cuMemUnmap");
    NEEDS_INIT();
    if (!within_reservation(address, bytes)) return invalid_value;
    const auto first = first_in(address);
    auto last = first;
    for (; last != driver().mappings.end() && last->first < address + bytes; ++last)
        if (last->first < address || last->first + last->second.first > address + bytes)
            return invalid_value;
    for (auto at = first; at != last;) {
        Physical* memory = at->second.second;
        at = driver().mappings.erase(at);
        --memory->mappings;
        drop_if_unused(memory);
    }
    return success;
}
}
