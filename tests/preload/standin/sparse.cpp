// Arrays of the stand-in that have no memory of their own: each tile, and each 64 KiB of the tail,
// holds the memory that is mapped to it until it is unmapped, other memory takes its place, or the
// array is gone.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <algorithm>

namespace standin {
namespace {

constexpr std::uint64_t tile_bytes = 65536;
constexpr std::uint64_t tile_side = 128;  // elements of four bytes

struct Box {
    unsigned level, layer, x, y, z, width, height, depth;
};
struct Tail {
    unsigned layer;
    std::uint64_t offset, bytes;
};
struct Operation {
    unsigned resource_type;
    void* array;
    unsigned subresource_type;
    union {
        Box box;
        Tail tail;
    };
    unsigned type;
    unsigned handle_type;
    std::uint64_t handle;
    std::uint64_t offset;
    unsigned devices;
    unsigned flags;
    unsigned reserved[2];
};
static_assert(sizeof(Operation) == 96);

std::uint64_t side_of(std::uint64_t side, unsigned level) {
    return std::max<std::uint64_t>(side >> level, 1);
}

// From the first tile to one that the extent ends with, or that the level does.
bool in_tiles(std::uint64_t from, std::uint64_t extent, std::uint64_t side) {
    return extent != 0 && from % tile_side == 0 && from + extent <= side &&
           (extent % tile_side == 0 || from + extent == side);
}

using Tiles = std::vector<Array::Tile>;

bool tiles_of_box(const preload::ArrayShape& shape, const Operation& one, Tiles& found) {
    const auto& box = one.box;
    if (box.level >= std::max(shape.levels, 1u) || box.z != 0 || box.depth != 1 ||
        !in_tiles(box.x, box.width, side_of(shape.width, box.level)) ||
        !in_tiles(box.y, box.height, side_of(shape.height, box.level)))
        return false;
    for (std::uint64_t y = box.y; y < box.y + box.height; y += tile_side)
        for (std::uint64_t x = box.x; x < box.x + box.width; x += tile_side)
            found.push_back({0, box.level, box.layer, x, y});
    return true;
}

bool tiles_of_tail(const Operation& one, Tiles& found) {
    const auto& tail = one.tail;
    if (tail.bytes == 0 || tail.bytes % tile_bytes != 0 || tail.offset % tile_bytes != 0)
        return false;
    for (std::uint64_t at = tail.offset; at < tail.offset + tail.bytes; at += tile_bytes)
        found.push_back({1, 0, tail.layer, at, 0});
    return true;
}

bool tiles_of(const Array& array, const Operation& one, Tiles& found) {
    if ((array.shape.flags & preload::array_deferred) != 0) {
        found.push_back({});
        return true;
    }
    if ((array.shape.flags & preload::array_sparse) == 0) return false;
    return one.subresource_type == 1 ? tiles_of_tail(one, found)
                                     : tiles_of_box(array.shape, one, found);
}

bool has_memory(const Array& array, const Operation& one, std::uint64_t tiles) {
    if (one.type == 2) return one.handle == 0;
    const auto at = driver().handles.find(one.handle);
    return one.type == 1 && at != driver().handles.end() && at->second->tile_pool &&
           at->second->device == array.context->device && one.offset <= at->second->bytes &&
           tiles * tile_bytes <= at->second->bytes - one.offset;
}

bool check(const Operation& one) {
    const auto at = driver().arrays.find(one.array);
    Tiles found;
    return at != driver().arrays.end() && one.flags == 0 && one.handle_type == 0 &&
           one.devices == 1u << at->second.context->device && tiles_of(at->second, one, found) &&
           has_memory(at->second, one, found.size());
}

void let_go(Physical* memory) {
    --memory->tiles;
    drop_if_unused(memory);
}

void apply(const Operation& one) {
    Array& array = driver().arrays.at(one.array);
    Tiles found;
    tiles_of(array, one, found);
    for (const Array::Tile& tile : found) {
        Physical* memory = one.type == 1 ? driver().handles.at(one.handle) : nullptr;
        if (memory != nullptr) ++memory->tiles;
        const auto before = array.tiles.find(tile);
        if (before != array.tiles.end()) let_go(before->second);
        if (memory != nullptr)
            array.tiles[tile] = memory;
        else
            array.tiles.erase(tile);
    }
}

int map(const Operation* list, unsigned count) {
    if (list == nullptr || count == 0 || !std::all_of(list, list + count, check))
        return invalid_value;
    std::for_each(list, list + count, apply);
    return success;
}

}  // namespace

void drop_tiles(Array& array) {
    for (const auto& [tile, memory] : array.tiles)
        let_go(memory);
    array.tiles.clear();
}

}  // namespace standin

using namespace standin;

extern "C" {

int cuMemMapArrayAsync(const Operation* list, unsigned count, void*) {
    COUNT_CALL("cuMemMapArrayAsync");
    NEEDS_INIT();
    return map(list, count);
}

int cuMemMapArrayAsync_ptsz(const Operation* list, unsigned count, void*) {
    COUNT_CALL("cuMemMapArrayAsync_ptsz");
    NEEDS_INIT();
    return map(list, count);
}
}
