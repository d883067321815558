// Linear, pitched and managed memory, arrays, and reports of the stand-in.
#include "preload/array_size.hpp"
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <cstring>
#include <unistd.h>

namespace standin {
namespace {

int card_of(const Context& context) {
    return card(context.device);
}

std::uint64_t gap_in(const std::map<std::uint64_t, std::uint64_t>& cut, std::uint64_t bytes,
                     std::uint64_t room) {
    std::uint64_t at = 0;
    for (const auto& [offset, size] : cut) {
        if (offset - at >= bytes) return at;
        at = offset + size;
    }
    return room - at >= bytes ? at : room;
}

}  // namespace

std::uint64_t cut_small(Context& context, std::uint64_t bytes) {
    for (auto& [start, cut] : context.small) {
        const std::uint64_t at = gap_in(cut, bytes, large_page);
        if (at == large_page) continue;
        cut[at] = bytes;
        return start + at;
    }
    if (!take_blocks(card_of(context), large_page)) return 0;
    const std::uint64_t start = fresh_address(large_page);
    context.small[start][0] = bytes;
    return start;
}

void uncut_small(Context& context, std::uint64_t address) {
    const std::uint64_t start = address / large_page * large_page;
    auto& cut = context.small[start];
    cut.erase(address - start);
    if (!cut.empty()) return;
    context.small.erase(start);
    give_blocks(card_of(context), large_page);
}

namespace {

int allocate(std::uint64_t* pointer, std::uint64_t bytes, BlockKind kind) {
    Context* context = current_owner();
    if (context == nullptr) return invalid_context;
    if (context->destroyed) return context_is_destroyed;
    if (pointer == nullptr || bytes == 0) return invalid_value;
    if (bytes > std::uint64_t{1} << 46) return out_of_memory;
    std::uint64_t taken = 0;
    if (kind == BlockKind::linear && bytes <= mib) {
        *pointer = cut_small(*context, rounded(bytes, 512));
        if (*pointer == 0) return out_of_memory;
    } else {
        taken = rounded(bytes, large_page);
        if (!take_blocks(card_of(*context), taken)) return out_of_memory;
        *pointer = fresh_address(taken);
    }
    driver().blocks[*pointer] = {bytes, taken, kind, context, nullptr, context->device};
    return success;
}

int make_array(void** handle, const preload::ArrayShape& shape) {
    Context* context = current_owner();
    if (context == nullptr) return invalid_context;
    const bool blocks = shape.format >= 0x91 && shape.format <= 0x9e;
    const bool plain = shape.format == 1 || shape.format == 2 || shape.format == 3 ||
                       shape.format == 8 || shape.format == 9 || shape.format == 0x0a ||
                       shape.format == 0x10 || shape.format == 0x20;
    if (handle == nullptr || shape.width == 0 || (!blocks && !plain) || shape.channels == 0 ||
        shape.channels == 3 || shape.channels > 4 || shape.width > 131072)
        return invalid_value;
    const std::uint64_t bytes = preload::array_bytes(shape);
    Array made{0, 0, context, shape};
    if (bytes != 0 && bytes <= mib) {
        made.small_at = cut_small(*context, bytes);
        if (made.small_at == 0) return out_of_memory;
    } else if (bytes != 0) {
        if (!take_blocks(card_of(*context), bytes)) return out_of_memory;
        made.taken = bytes;
    }
    *handle = new char;
    driver().arrays[*handle] = made;
    return success;
}

int destroy_array(void* handle) {
    const auto at = driver().arrays.find(handle);
    if (at == driver().arrays.end()) return invalid_handle;
    drop_tiles(at->second);
    if (at->second.small_at != 0)
        uncut_small(*at->second.context, at->second.small_at);
    else
        give_blocks(card_of(*at->second.context), at->second.taken);
    driver().arrays.erase(at);
    return success;
}

struct Deep {
    std::uint64_t width, height, depth;
    std::uint32_t format, channels, flags;
};

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

int cuMemAlloc_v2(std::uint64_t* pointer, std::uint64_t bytes) {
    COUNT_CALL("cuMemAlloc_v2");
    NEEDS_INIT();
    return allocate(pointer, bytes, BlockKind::linear);
}

int cuMemAllocPitch_v2(std::uint64_t* pointer, std::uint64_t* pitch, std::uint64_t width,
                       std::uint64_t height, unsigned element) {
    COUNT_CALL("cuMemAllocPitch_v2");
    NEEDS_INIT();
    if (pitch == nullptr || (element != 4 && element != 8 && element != 16)) return invalid_value;
    const std::uint64_t row = rounded(width, 512);
    const int status = allocate(pointer, row * height, BlockKind::linear);
    if (status == success) *pitch = row;
    return status;
}

int cuMemAllocManaged(std::uint64_t* pointer, std::uint64_t bytes, unsigned flags) {
    COUNT_CALL("cuMemAllocManaged");
    NEEDS_INIT();
    if (flags != 1 && flags != 2) return invalid_value;
    return allocate(pointer, bytes, BlockKind::managed);
}

int cuMemFree_v2(std::uint64_t pointer) {
    COUNT_CALL("cuMemFree_v2");
    NEEDS_INIT();
    return free_pointer(pointer, true);
}

int cuMemHostAlloc(void** pointer, std::uint64_t bytes, unsigned) {
    COUNT_CALL("cuMemHostAlloc");
    NEEDS_INIT();
    *pointer = ::operator new(bytes);
    return success;
}

int cuMemsetD8_v2(std::uint64_t, unsigned char, std::uint64_t) {
    COUNT_CALL("cuMemsetD8_v2");
    return success;
}

int cuMemsetD8Async(std::uint64_t, unsigned char, std::uint64_t, void*) {
    COUNT_CALL("cuMemsetD8Async");
    return success;
}

int cuMemGetInfo_v2(std::uint64_t* free, std::uint64_t* total) {
    COUNT_CALL("cuMemGetInfo_v2");
    NEEDS_INIT();
    if (current() == nullptr) return invalid_context;
    const int card = card_of(*current());
    const std::uint64_t used = used_on(card);
    if (free != nullptr) *free = world().bytes[card] > used ? world().bytes[card] - used : 0;
    if (total != nullptr) *total = world().bytes[card];
    return success;
}

int cuArray3DCreate_v2(void** handle, const Deep* shape) {
    COUNT_CALL("cuArray3DCreate_v2");
    NEEDS_INIT();
    if (shape == nullptr) return invalid_value;
    return make_array(handle, {shape->width, shape->height, shape->depth, shape->format,
                               shape->channels, shape->flags, 1});
}

int cuArrayDestroy(void* handle) {
    COUNT_CALL("cuArrayDestroy");
    NEEDS_INIT();
    return destroy_array(handle);
}

int cuMipmappedArrayCreate(void** handle, const Deep* shape, unsigned levels) {
    COUNT_CALL("cuMipmappedArrayCreate");
    NEEDS_INIT();
    if (shape == nullptr) return invalid_value;
    return make_array(handle, {shape->width, shape->height, shape->depth, shape->format,
                               shape->channels, shape->flags, levels == 0 ? 1 : levels});
}

int cuArrayGetMemoryRequirements(void*, void*, int) {
    COUNT_CALL("cuArrayGetMemoryRequirements");
    return invalid_value;  // as of arrays that are not mapped later
}

int cuMipmappedArrayGetMemoryRequirements(void*, void*, int) {
    COUNT_CALL("cuMipmappedArrayGetMemoryRequirements");
    return invalid_value;
}

int cuMipmappedArrayDestroy(void* handle) {
    COUNT_CALL("cuMipmappedArrayDestroy");
    NEEDS_INIT();
    return destroy_array(handle);
}
}
