// State of one process of the stand-in driver. Behaviour follows the recording in ../recorded.
#pragma once

#include "preload/array_size.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <set>
#include <unistd.h>
#include <vector>

namespace standin {

/// CUresult values used here.
enum : int {
    success = 0,
    invalid_value = 1,
    out_of_memory = 2,
    not_initialized = 3,
    invalid_device = 101,
    invalid_context = 201,
    invalid_handle = 400,
    not_ready = 600,
    not_supported = 801,
    context_is_destroyed = 709,
    capture_implicit = 906,
};

/// What a runtime keeps with a context (export_tables.cpp).
struct Stored {
    using Farewell = void (*)(struct Context*, void* key, void* value);
    void* value;
    Farewell farewell;  // called when the context has gone; may be null
};

struct Context {
    int device;
    bool primary = false;
    std::uint64_t stack = 1024;
    std::uint64_t limits[8] = {1024, 8650752, 8388608, 2, 2048, 128, 0, 0};
    // Blocks of 2 MiB from which allocations up to 1 MiB are cut: start -> (offset -> size) of what
    // is taken.
    std::map<std::uint64_t, std::map<std::uint64_t, std::uint64_t>> small = {};
    std::map<void*, Stored> storage = {};
    unsigned attached = 0;
    Context* face_of = nullptr;  // the primary one, of which a green one has a part
    bool destroyed = true;       // a primary one that nobody retains, or that was reset
};

enum class BlockKind { linear, managed, pool, graph };

struct Block {
    std::uint64_t bytes;  // as asked for
    std::uint64_t taken;  // of the card; 0 where it is cut from a larger block
    BlockKind kind;
    Context* context;  // linear and managed
    struct Pool* pool;
    int device;
};

struct Array {
    using Tile = std::array<std::uint64_t, 5>;  // of the tail or not, level and layer, place
    std::uint64_t taken;
    std::uint64_t small_at;  // 0, or where it was cut from a block of 2 MiB
    Context* context;
    preload::ArrayShape shape = {};
    std::map<Tile, struct Physical*> tiles = {};  // mapped later
};

/// What makes a handle one of a multicast object.
struct Team {
    struct Binding {
        std::uint64_t bytes;
        struct Physical* memory;
    };
    unsigned wanted;
    std::set<int> devices = {};
    std::map<std::pair<int, std::uint64_t>, Binding> bindings = {};  // device and offset ->
};

/// Memory, or a multicast object, which has none. It lives while any of the counts is not zero.
struct Physical {
    int device;  // -1: the host's, or none
    std::uint64_t bytes;
    bool tile_pool = false;
    std::unique_ptr<Team> team = nullptr;
    std::uint64_t references = 1;
    std::uint64_t mappings = 0;
    std::uint64_t bindings = 0;  // to multicast objects
    std::uint64_t tiles = 0;     // of arrays
    std::uint64_t exports = 0;
};

struct Chunk {
    std::uint64_t bytes;
    std::map<std::uint64_t, std::uint64_t> cut;  // offset -> size
};

struct Pool {
    int device;  // -1: the host's, or managed without a preferred one
    bool builtin = false;
    bool managed = false;
    bool destroyed = false;
    std::uint64_t threshold = 0;
    std::uint64_t used = 0;
    std::uint64_t live = 0;
    std::map<std::uint64_t, Chunk> chunks = {};  // start ->
    std::vector<std::uint64_t> pending = {};     // freed, not synchronised
};

struct Graph {
    struct Node {
        int type;  // CUgraphNodeType
        std::uint64_t bytes;
        std::uint64_t address;
        int device = 0;
    };
    std::vector<Node*> nodes;
};

struct Executable {
    std::array<std::uint64_t, 8> bytes = {};  // of each device
    std::array<std::uint64_t, 8> mapped = {};
    bool frees = false;
    bool outstanding = false;
};

struct Stream {
    Context* context;
    Graph* capture = nullptr;
};

/// A recursive lock without a system call on the way.
class SpinLock {
public:
    void lock() {
        if (owner_.load(std::memory_order_relaxed) != &mark()) {
            const char* nobody = nullptr;
            while (!owner_.compare_exchange_weak(nobody, &mark(), std::memory_order_acquire)) {
                nobody = nullptr;
                sched_yield();
            }
        }
        ++depth_;
    }
    void unlock() {
        if (--depth_ == 0) owner_.store(nullptr, std::memory_order_release);
    }

private:
    static char& mark() {
        static thread_local char mine;
        return mine;
    }
    std::atomic<const char*> owner_{nullptr};
    unsigned depth_ = 0;
};

struct Driver {
    SpinLock lock;
    bool usable = false;       // cuInit was called here
    bool forked = false;       // ... or by a parent
    std::vector<int> visible;  // ordinal -> card
    Context* primary[8] = {};
    unsigned retained[8] = {};
    std::set<Context*> contexts;
    std::map<void*, Context*> greens;  // green context -> what is current in its place
    std::map<std::uint64_t, Block> blocks;
    std::map<void*, Array> arrays;
    std::map<std::uint64_t, Physical*> handles;
    std::map<std::uint64_t, std::pair<std::uint64_t, Physical*>>
        mappings;  // address -> size, memory
    std::map<std::uint64_t, std::uint64_t> reservations;
    std::map<Pool*, Pool*> pools;
    Pool* current_pool[8] = {};
    std::set<Graph*> graphs;
    std::set<Executable*> executables;
    std::uint64_t graph_reserved[8] = {};
    std::set<Stream*> streams;
    std::uint64_t next_address = 0x7f2000000000;
    // What comes again: addresses by the size of what was there, and contexts.
    std::multimap<std::uint64_t, std::uint64_t> spare_addresses;
    std::vector<Context*> spare_contexts;
};

Driver& driver();

/// Whether cuInit has found a device of this ordinal, and which of the world's cards it is.
bool known(int device);
int card(int device);

std::vector<Context*>& context_stack();

/// Null where the thread has no context.
Context* current();

/// The one that has the memory: of a green one the primary context.
Context* current_owner();

/// Address space, aligned to 2 MiB; what was given back comes first.
std::uint64_t fresh_address(std::uint64_t bytes);
void give_address(std::uint64_t address, std::uint64_t bytes);

std::uint64_t rounded(std::uint64_t bytes, std::uint64_t step);

/// Cuts from the context's small blocks; 0 where the card is full.
std::uint64_t cut_small(Context& context, std::uint64_t bytes);
void uncut_small(Context& context, std::uint64_t address);

/// What is to be called once a context has gone and the driver's lock is released: made before the
/// lock is taken.
class Farewells {
public:
    Farewells() = default;
    Farewells(const Farewells&) = delete;
    Farewells& operator=(const Farewells&) = delete;
    ~Farewells() {
        for (const auto& [key, stored] : stored_)
            if (stored.farewell != nullptr) stored.farewell(context_, key, stored.value);
    }
    void take(Context* context) {
        context_ = context;
        stored_.swap(context->storage);
    }

private:
    Context* context_ = nullptr;
    std::map<void*, Stored> stored_;
};

/// Gives memory back, or destroys a multicast object, if nothing holds it any more.
void drop_if_unused(Physical* memory);

/// Waits until a multicast object has all its devices; at once for any other handle.
void wait_for_team(std::uint64_t handle);

/// Lets go of what is mapped to an array.
void drop_tiles(Array& array);

/// Frees what dies with a context.
void destroy_context(Context* context, Farewells& farewells);

/// The primary context of a device: the same one for the life of the process, in use or not.
Context* primary_of(int device);

/// Finishes what streams have pending: freed blocks of pools go back.
void synchronize();

int free_pointer(std::uint64_t pointer, bool waits);

/// The CUDA version whose functions this build has (CMakeLists.txt).
extern const int profile;

/// The CUDA version that this driver claims: its own, or what DRAWBRIDGE_STANDIN_VERSION says.
int driver_version();

/// Waits until every kernel that was launched has ended.
void wait_for_work();

}  // namespace standin

/// Refuses before cuInit, in a child that was forked after it, and where a test has it refuse.
#define NEEDS_INIT()                                                \
    const std::lock_guard guard(standin::driver().lock);            \
    if (!standin::driver().usable) return standin::not_initialized; \
    if (call.failure != 0) return call.failure
