// Mapping physical memory to arrays that have none of their own. It counts from before the call; an
// unmapping counts once it is in its stream, as a free does.
#include "preload/charge.hpp"
#include "preload/contexts.hpp"
#include "preload/resolve.hpp"
#include "preload/sparse.hpp"
#include "preload/vmm.hpp"

#include <string.h>

namespace preload {
namespace {

struct Tiles {
    uint32_t level, layer;
    uint32_t offset[3];
    uint32_t extent[3];
};
struct Tail {
    uint32_t layer;
    uint64_t offset, bytes;
};

// CUarrayMapInfo.
struct MapInfo {
    uint32_t resource_type;
    uint64_t array;
    uint32_t subresource_type;
    union {
        Tiles tiles;
        Tail tail;
    };
    uint32_t operation;
    uint32_t handle_type;
    uint64_t handle;
    uint64_t offset;
    uint32_t devices;
    uint32_t flags;
    uint32_t reserved[2];
};
static_assert(sizeof(MapInfo) == 96 && __builtin_offsetof(MapInfo, operation) == 56 &&
              __builtin_offsetof(MapInfo, devices) == 80);
enum : uint32_t { subresource_tail = 1, operation_map = 1, operation_unmap = 2 };

// Array -> a number of its own, which never comes again; `owner` is the context. The kind tells
// those that are mapped as a whole.
Table arrays;
uint64_t numbers;
constexpr Kind by_boxes = Kind::array;
constexpr Kind as_a_whole = Kind::linear;
constexpr uint64_t number_mark = uint64_t{1} << 63;  // no handle of an object has it

struct Place {
    uint64_t part;
    Box box;
};

// A level has at most 2^5, an array 2^26 layers.
uint64_t part_of(uint32_t type, uint32_t level, uint32_t layer, uint32_t devices) {
    const uint64_t above = (type == subresource_tail ? uint64_t{1} << 31 : 0) |
                           uint64_t{level & 31} << 26 | (layer & 0x3ffffff);
    return above << 32 | devices;
}

Place place_of(const MapInfo& info, bool is_whole) {
    if (is_whole) return {info.devices, {}};
    if (info.subresource_type == subresource_tail)
        return {part_of(subresource_tail, 0, info.tail.layer, info.devices),
                range_of(info.tail.offset, info.tail.bytes)};
    Place place{part_of(0, info.tiles.level, info.tiles.layer, info.devices), {}};
    for (int axis = 0; axis < 3; ++axis) {
        place.box.from[axis] = info.tiles.offset[axis];
        place.box.to[axis] = uint64_t{info.tiles.offset[axis]} + info.tiles.extent[axis];
    }
    return place;
}

Record array_of(const MapInfo& info) {
    Record record;
    if (!arrays.find(info.array, record)) {
        sparse_array_made(info.array, false);
        arrays.find(info.array, record);
    }
    return record;
}

// What is mapped over other memory takes its place.
void apply(const MapInfo& info, uint16_t life) {
    if (info.operation != operation_map && info.operation != operation_unmap) return;
    const Record array = array_of(info);
    const Place place = place_of(info, array.kind == as_a_whole);
    cut_pieces(array.bytes, place.part, place.box, physical.numbers);
    if (life != 0)
        physical.pieces.keep(
            {array.bytes, place.part, place.box, {info.handle, life}, ++physical.numbers});
}

// The list as the driver was given it, and the lives of the memory that its maps hold, 0 for none.
struct Maps {
    const MapInfo* list;
    uint16_t* held;
    uint32_t count;
};

// Holds the memory of the first operations' maps; of how many it could.
uint32_t hold_all(const Maps& maps) {
    for (uint32_t at = 0; at < maps.count; ++at) {
        int device = -1;
        maps.held[at] = 0;
        if (maps.list[at].operation != operation_map) continue;
        if (!physical.pieces.promise(1)) return at;
        maps.held[at] = hold_charged(maps.list[at].handle, device).life;
        if (maps.held[at] == 0) physical.pieces.withdraw(1);
    }
    return maps.count;
}

void let_go_all(const Maps& maps, uint32_t count) {
    for (uint32_t at = 0; at < count; ++at) {
        if (maps.held[at] == 0) continue;
        physical.pieces.withdraw(1);
        let_go({maps.list[at].handle, maps.held[at]});
    }
}

template <class Call>
int hold_and_call(const Maps& maps, Call call) {
    uint32_t count = 0;
    {
        const Guard guard(physical.lock);
        count = hold_all(maps);
    }
    const int status = count == maps.count ? call() : cuda_out_of_memory;
    const Guard guard(physical.lock);
    if (status != cuda_success) let_go_all(maps, count);
    for (uint32_t at = 0; status == cuda_success && at < count; ++at)
        apply(maps.list[at], maps.held[at]);
    return status;
}

// The list is copied: it must be the same one afterwards.
template <class Call>
int map_arrays(const void* infos, uint32_t count, Call call) {
    if (!enforcing() || infos == nullptr || count == 0) return call();
    constexpr uint32_t few = 16;
    MapInfo few_infos[few];
    uint16_t few_held[few];
    Maps maps{few_infos, few_held, count};
    const uint64_t bytes = count * (sizeof(MapInfo) + sizeof(uint16_t));
    void* many = count > few ? pages(bytes) : few_infos;
    if (many == nullptr) return cuda_out_of_memory;
    memcpy(many, infos, count * sizeof(MapInfo));
    if (count > few) {
        maps.list = static_cast<MapInfo*>(many);
        maps.held = reinterpret_cast<uint16_t*>(static_cast<MapInfo*>(many) + count);
    }
    const int status = hold_and_call(maps, call);
    if (count > few) unmap(many, bytes);
    return status;
}

}  // namespace

void sparse_array_made(uint64_t array, bool is_deferred) {
    const uint64_t number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
    arrays.insert(
        {array, number_mark | number, owning_context(), -1, is_deferred ? as_a_whole : by_boxes});
}

bool take_sparse_array(uint64_t array, Record& record) {
    return arrays.take(array, record);
}

void put_sparse_array_back(const Record& record) {
    arrays.insert(record);
}

void sparse_array_gone(const Record& record) {
    const Guard guard(physical.lock);
    drop_pieces(record.bytes);
}

void take_sparse_arrays(uint64_t context, Aside& all) {
    arrays.remove_if([&](const Record& array) { return array.owner == context && all.add(array); });
}

void forget_sparse_arrays() {
    arrays.forget();
}

}  // namespace preload

using namespace preload;

extern "C" {

int cuMemMapArrayAsync(void* mapInfoList, uint32_t count, void* hStream) {
    auto* function = real<cuMemMapArrayAsync_function>(entry_cuMemMapArrayAsync);
    if (function == nullptr) return cuda_not_initialized;
    return map_arrays(mapInfoList, count, [=] { return function(mapInfoList, count, hStream); });
}

int cuMemMapArrayAsync_ptsz(void* mapInfoList, uint32_t count, void* hStream) {
    auto* function = real<cuMemMapArrayAsync_ptsz_function>(entry_cuMemMapArrayAsync_ptsz);
    if (function == nullptr) return cuda_not_initialized;
    return map_arrays(mapInfoList, count, [=] { return function(mapInfoList, count, hStream); });
}
}
