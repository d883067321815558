// Pools and freeing of the stand-in.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <map>
#include <set>
#include <tuple>
#include <unistd.h>

namespace standin {
namespace {

std::uint64_t reserved(const Pool& pool) {
    std::uint64_t sum = 0;
    for (const auto& [start, chunk] : pool.chunks)
        sum += chunk.bytes;
    return sum;
}

Pool* default_pool(int device) {
    for (const auto& [pool, same] : driver().pools)
        if (pool->builtin && !pool->managed && pool->device == device) return pool;
    auto* made = new Pool{device, true};
    driver().pools[made] = made;
    if (driver().current_pool[device] == nullptr) driver().current_pool[device] = made;
    return made;
}

Pool* current_pool(int device) {
    default_pool(device);
    return driver().current_pool[device];
}

// CUmemAllocationType and CUmemLocationType.
enum : unsigned { pinned = 1, managed = 2 };
enum : unsigned { anywhere = 0, on_device = 1, on_host = 2, on_numa_node = 3 };

// Whether there may be pools of a type at a place.
int check_place(unsigned type, const std::uint32_t* place) {
    if (type != pinned && type != managed) return invalid_value;
    if (place[0] == on_device) return known(static_cast<int>(place[1])) ? success : invalid_device;
    const bool is_host = place[0] == on_host || place[0] == on_numa_node;
    return is_host || (type == managed && place[0] == anywhere) ? success : invalid_value;
}

int make_pool(Pool** pool, unsigned type, const std::uint32_t* place, bool builtin) {
    const int device = place[0] == on_device ? static_cast<int>(place[1]) : -1;
    *pool = new Pool{device, builtin, type == managed};
    driver().pools[*pool] = *pool;
    return success;
}

// Gives empty chunks back until no more than `keep` bytes are reserved.
void trim(Pool& pool, std::uint64_t keep) {
    for (auto at = pool.chunks.begin(); at != pool.chunks.end();) {
        const bool goes = at->second.cut.empty() && reserved(pool) >= keep + at->second.bytes;
        if (goes && pool.device >= 0) give_blocks(card(pool.device), at->second.bytes);
        at = goes ? pool.chunks.erase(at) : std::next(at);
    }
}

std::uint64_t cut(Pool& pool, std::uint64_t bytes) {
    for (auto& [start, chunk] : pool.chunks) {
        std::uint64_t at = 0;
        bool fits = false;
        for (const auto& [offset, size] : chunk.cut) {
            fits = offset - at >= bytes;
            if (fits) break;
            at = offset + size;
        }
        if (!fits && chunk.bytes - at < bytes) continue;
        chunk.cut[at] = bytes;
        return start + at;
    }
    const std::uint64_t size = rounded(bytes, pool_chunk);
    if (pool.device >= 0 && !take_blocks(card(pool.device), size)) return 0;
    const std::uint64_t start = fresh_address(size);
    pool.chunks[start] = {size, {{0, bytes}}};
    return start;
}

void uncut(Pool& pool, std::uint64_t address) {
    auto chunk = pool.chunks.upper_bound(address);
    if (chunk == pool.chunks.begin()) return;
    --chunk;
    chunk->second.cut.erase(address - chunk->first);
}

void settle(Pool& pool) {
    for (const std::uint64_t address : pool.pending)
        uncut(pool, address);
    pool.pending.clear();
    trim(pool, pool.destroyed ? 0 : pool.threshold);
}

int allocate_from(Pool& pool, std::uint64_t* pointer, std::uint64_t bytes) {
    if (pointer == nullptr) return invalid_value;
    if (bytes == 0) {
        *pointer = 0;
        return success;
    }
    if (bytes > std::uint64_t{1} << 45) return out_of_memory;
    *pointer = cut(pool, rounded(bytes, 512));
    if (*pointer == 0) return out_of_memory;
    pool.used += bytes;
    ++pool.live;
    driver().blocks[*pointer] = {bytes, 0, BlockKind::pool, nullptr, &pool, pool.device};
    return success;
}

Stream* capturing(Stream* stream) {
    return driver().streams.count(stream) != 0 && stream->capture != nullptr ? stream : nullptr;
}

// What a graph has freed before takes the next of its size; 0 where there is none.
std::uint64_t freed_in(const Graph& graph, std::uint64_t bytes) {
    std::set<std::uint64_t> free;
    for (const Graph::Node* node : graph.nodes) {
        if (node->type == 11) free.insert(node->address);
        if (node->type == 10) free.erase(node->address);
    }
    for (const Graph::Node* node : graph.nodes)
        if (node->type == 10 && free.count(node->address) != 0 &&
            rounded(node->bytes, large_page) == rounded(bytes, large_page))
            return node->address;
    return 0;
}

int captured_alloc(Stream& stream, std::uint64_t* pointer, std::uint64_t bytes) {
    *pointer = freed_in(*stream.capture, bytes);
    if (*pointer == 0) *pointer = fresh_address(bytes);
    stream.capture->nodes.push_back(new Graph::Node{10, bytes, *pointer, stream.context->device});
    return success;
}

int allocate_on(Stream* stream, Pool* pool, std::uint64_t* pointer, std::uint64_t bytes) {
    if (Stream* recording = capturing(stream)) return captured_alloc(*recording, pointer, bytes);
    const bool plain = reinterpret_cast<std::uintptr_t>(stream) <= 2;
    if (plain && current() == nullptr) return invalid_context;
    const int device = plain ? current()->device : stream->context->device;
    return allocate_from(pool == nullptr ? *current_pool(device) : *pool, pointer, bytes);
}

}  // namespace

void synchronize() {
    for (const auto& [pool, same] : driver().pools)
        settle(*pool);
}

int free_pointer(std::uint64_t pointer, bool waits) {
    if (pointer == 0) return success;
    const auto at = driver().blocks.find(pointer);
    if (at == driver().blocks.end()) {
        for (Executable* one : driver().executables)
            if (one->outstanding) {
                one->outstanding = false;
                return success;
            }
        return invalid_value;
    }
    const Block block = at->second;
    if (!waits && block.kind == BlockKind::managed) return not_supported;
    driver().blocks.erase(at);
    if (block.kind == BlockKind::pool) {
        block.pool->used -= block.bytes;
        --block.pool->live;
        block.pool->pending.push_back(pointer);
        if (waits || block.pool->destroyed) synchronize();
    } else if (block.taken == 0) {
        uncut_small(*block.context, pointer);
    } else {
        give_blocks(card(block.device), block.taken);
        give_address(pointer, block.taken);
    }
    return success;
}

}  // namespace standin

using namespace standin;

extern "C" {

int cuDeviceGetDefaultMemPool(Pool** pool, int device) {
    COUNT_CALL("cuDeviceGetDefaultMemPool");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    *pool = default_pool(device);
    return success;
}

int cuDeviceGetMemPool(Pool** pool, int device) {
    COUNT_CALL("cuDeviceGetMemPool");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    *pool = current_pool(device);
    return success;
}

int cuDeviceSetMemPool(int device, Pool* pool) {
    COUNT_CALL("cuDeviceSetMemPool");
    NEEDS_INIT();
    if (!known(device) || driver().pools.count(pool) == 0) return invalid_value;
    driver().current_pool[device] = pool;
    return success;
}

int cuMemPoolCreate(Pool** pool, const std::uint32_t* properties) {
    COUNT_CALL("cuMemPoolCreate");
    NEEDS_INIT();
    if (pool == nullptr || properties == nullptr) return invalid_value;
    const int status = check_place(properties[0], properties + 2);
    return status == success ? make_pool(pool, properties[0], properties + 2, false) : status;
}

int cuMemGetDefaultMemPool(Pool** pool, const std::uint32_t* place, unsigned type) {
    COUNT_CALL("cuMemGetDefaultMemPool");
    NEEDS_INIT();
    if (pool == nullptr || place == nullptr) return invalid_value;
    if (const int status = check_place(type, place)) return status;
    if (type == pinned && place[0] == on_device) {
        *pool = default_pool(static_cast<int>(place[1]));
        return success;
    }
    static std::map<std::tuple<unsigned, unsigned, unsigned>, Pool*> made;
    Pool*& known_one = made[{type, place[0], place[0] == on_host ? 0 : place[1]}];
    if (known_one == nullptr) make_pool(&known_one, type, place, true);
    *pool = known_one;
    return success;
}

int cuMemGetMemPool(Pool** pool, const std::uint32_t* place, unsigned type) {
    COUNT_CALL("cuMemGetMemPool");
    return cuMemGetDefaultMemPool(pool, place, type);
}

int cuMemPoolDestroy(Pool* pool) {
    COUNT_CALL("cuMemPoolDestroy");
    NEEDS_INIT();
    if (driver().pools.count(pool) == 0 || pool->builtin || pool->destroyed) return invalid_value;
    pool->destroyed = true;
    if (pool->device >= 0 && driver().current_pool[pool->device] == pool)
        driver().current_pool[pool->device] = default_pool(pool->device);
    settle(*pool);
    return success;
}

int cuMemPoolGetAttribute(Pool* pool, int attribute, std::uint64_t* value) {
    COUNT_CALL("cuMemPoolGetAttribute");
    NEEDS_INIT();
    if (driver().pools.count(pool) == 0 || pool->destroyed) return invalid_value;
    *value = attribute == 4   ? pool->threshold
             : attribute == 5 ? reserved(*pool)
             : attribute == 7 ? pool->used
                              : 0;
    return success;
}

int cuMemPoolSetAttribute(Pool* pool, int attribute, const std::uint64_t* value) {
    COUNT_CALL("cuMemPoolSetAttribute");
    NEEDS_INIT();
    if (driver().pools.count(pool) == 0 || pool->destroyed) return invalid_value;
    if (attribute == 4) pool->threshold = *value;
    return success;
}

int cuMemPoolTrimTo(Pool* pool, std::uint64_t keep) {
    COUNT_CALL("cuMemPoolTrimTo");
    NEEDS_INIT();
    if (driver().pools.count(pool) == 0 || pool->destroyed) {
        static Counter gone("a pool that is gone");
        ++gone.calls;
        return invalid_value;
    }
    for (const std::uint64_t address : pool->pending)
        uncut(*pool, address);
    pool->pending.clear();
    trim(*pool, keep);
    return success;
}

int cuMemAllocAsync(std::uint64_t* pointer, std::uint64_t bytes, Stream* stream) {
    COUNT_CALL("cuMemAllocAsync");
    NEEDS_INIT();
    return allocate_on(stream, nullptr, pointer, bytes);
}

int cuMemAllocAsync_ptsz(std::uint64_t* pointer, std::uint64_t bytes, Stream* stream) {
    COUNT_CALL("cuMemAllocAsync_ptsz");
    NEEDS_INIT();
    return allocate_on(stream, nullptr, pointer, bytes);
}

int cuMemAllocFromPoolAsync(std::uint64_t* pointer, std::uint64_t bytes, Pool* pool,
                            Stream* stream) {
    COUNT_CALL("cuMemAllocFromPoolAsync");
    NEEDS_INIT();
    if (driver().pools.count(pool) == 0 || pool->destroyed) return invalid_value;
    return allocate_on(stream, pool, pointer, bytes);
}

int cuMemAllocFromPoolAsync_ptsz(std::uint64_t* pointer, std::uint64_t bytes, Pool* pool,
                                 Stream* stream) {
    COUNT_CALL("cuMemAllocFromPoolAsync_ptsz");
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, stream);
}

int cuMemFreeAsync(std::uint64_t pointer, Stream* stream) {
    COUNT_CALL("cuMemFreeAsync");
    NEEDS_INIT();
    if (Stream* recording = capturing(stream)) {
        recording->capture->nodes.push_back(new Graph::Node{11, 0, pointer});
        return success;
    }
    return free_pointer(pointer, false);
}

int cuMemFreeAsync_ptsz(std::uint64_t pointer, Stream* stream) {
    COUNT_CALL("cuMemFreeAsync_ptsz");
    return cuMemFreeAsync(pointer, stream);
}

int cuStreamIsCapturing(Stream* stream, int* state) {
    COUNT_CALL("cuStreamIsCapturing");
    NEEDS_INIT();
    *state = capturing(stream) != nullptr;
    return success;
}

int cuStreamIsCapturing_ptsz(Stream* stream, int* state) {
    COUNT_CALL("cuStreamIsCapturing_ptsz");
    return cuStreamIsCapturing(stream, state);
}

int cuStreamBeginCapture_v2(Stream* stream, int) {
    COUNT_CALL("cuStreamBeginCapture_v2");
    NEEDS_INIT();
    if (driver().streams.count(stream) == 0) return invalid_handle;
    stream->capture = new Graph;
    driver().graphs.insert(stream->capture);
    return success;
}

int cuStreamEndCapture(Stream* stream, Graph** graph) {
    COUNT_CALL("cuStreamEndCapture");
    NEEDS_INIT();
    if (capturing(stream) == nullptr) return invalid_value;
    *graph = stream->capture;
    stream->capture = nullptr;
    return success;
}
}
