#include "preload/charge.hpp"
#include "preload/graphs.hpp"
#include "preload/launch.hpp"
#include "preload/os.hpp"
#include "preload/ranges.hpp"
#include "preload/resolve.hpp"

#include <string.h>

namespace preload {
namespace {

constexpr int node_alloc = 10;  // CUgraphNodeType
constexpr int node_child = 4;
constexpr uint64_t chunk = 32 * mib;  // what graph memory has been seen to grow by

bool seen;
// Executable graph on a device -> bytes that it maps there; `owner` is the trim count at which they
// were last mapped, plus one.
Table executables;
uint64_t trims;

uint64_t key_of(const void* executable, int device) {
    return reinterpret_cast<uint64_t>(executable) << 6 | static_cast<uint64_t>(device);
}
static_assert(max_devices <= 64);

// What the driver says of a device's graph memory. Looks are numbered as they begin: one that ends
// after a later one has an old figure.
struct Gauge {
    uint64_t heard = 0;
    Spread charged;
};
Mutex gauges_lock;
Gauge gauges[max_devices];
uint64_t looks;

// CUDA_MEM_ALLOC_NODE_PARAMS (v1, 120 bytes): pool properties, access list and its length, size,
// address.
struct AllocNode {
    uint32_t type, handle_types, location_type;
    int32_t location;
    uint8_t rest[72];
    uint64_t access, accesses, bytes, address;
};
static_assert(sizeof(AllocNode) == 120);

void gather(void* graph, Ranges& ranges, int depth);

void gather_node(void* node, Ranges& ranges, int depth) {
    int type = -1;
    if (helpers.node_type(node, &type) != cuda_success) return;
    void* child = nullptr;
    if (type == node_child && helpers.child_graph != nullptr && depth < 16 &&
        helpers.child_graph(node, &child) == cuda_success)
        gather(child, ranges, depth + 1);
    AllocNode parameters = {};
    if (type == node_alloc && helpers.alloc_node(node, &parameters) == cuda_success)
        ranges.add(parameters.location, parameters.address, parameters.bytes);
}

// The addresses of all allocation nodes of a graph: one that comes after the other is freed may
// have the same ones, and the same memory.
void gather(void* graph, Ranges& ranges, int depth) {
    uint64_t count = 0;
    if (helpers.graph_nodes == nullptr || helpers.node_type == nullptr ||
        helpers.alloc_node == nullptr)
        return;
    if (helpers.graph_nodes(graph, nullptr, &count) != cuda_success || count == 0) return;
    auto** nodes = static_cast<void**>(pages(count * sizeof(void*)));
    if (nodes == nullptr) return;
    const uint64_t space = count * sizeof(void*);
    if (helpers.graph_nodes(graph, nodes, &count) == cuda_success)
        for (uint64_t at = 0; at < count; ++at)
            gather_node(nodes[at], ranges, depth);
    unmap(nodes, space);
}

// `room`: the share that has set bytes aside for what it grew by.
void look_at_device(int device, int room = -1) {
    const int share = share_of_device(device);
    const uint64_t look = __atomic_add_fetch(&looks, 1, __ATOMIC_SEQ_CST);
    uint64_t now = 0;
    if (share < 0 || helpers.graph_attribute == nullptr ||
        helpers.graph_attribute(device, graph_reserved_current, &now) != cuda_success)
        return;
    const Guard guard(gauges_lock);
    Gauge& gauge = gauges[device];
    if (look < gauge.heard) return;
    gauge.heard = look;
    spread(gauge.charged, share, room, now, DRAWBRIDGE_GAUGE_GRAPH);
}

uint64_t trims_now() {
    return __atomic_load_n(&trims, __ATOMIC_SEQ_CST);
}

// Trims, counted before and after: whoever launches meanwhile believes nothing to be mapped.
int trim_device(int device, cuDeviceGraphMemTrim_function trim) {
    __atomic_fetch_add(&trims, 1, __ATOMIC_SEQ_CST);
    const int status = trim(device);
    __atomic_fetch_add(&trims, 1, __ATOMIC_SEQ_CST);
    return status;
}

int instantiated(int status, void* place, void* graph) {
    if (status != cuda_success || !enforcing() || !__atomic_load_n(&seen, __ATOMIC_RELAXED))
        return status;
    Ranges ranges;
    gather(graph, ranges, 0);
    ranges.sort();
    for (int device = 0; device < process.device_count; ++device) {
        const uint64_t key = key_of(*static_cast<void**>(place), device);
        const uint64_t bytes = ranges.bytes_on(device);
        Record before;
        if (bytes != 0)
            executables.insert({key, bytes, 0, -1, Kind::graph_block});
        else
            executables.take(key, before);  // its handle came again
    }
    return status;
}

// What a launch may map, set aside on every device.
class Mapping {
public:
    explicit Mapping(const void* executable) : executable_(executable) {}

    /// False where one of them has no room.
    bool set_aside() {
        for (int device = 0; device < process.device_count; ++device) {
            Record record;
            if (!executables.find(key_of(executable_, device), record)) continue;
            Part& part = parts_[count_++];
            part.device = device;
            const uint64_t bytes = (record.bytes + chunk - 1) / chunk * chunk;
            // What is mapped already is in the driver's figure.
            if (record.owner == trims_now() + 1 || reserve(device, bytes, part.made)) continue;
            for (int at = 0; at < count_; ++at)
                cancel(parts_[at].made);
            return false;
        }
        return true;
    }

    template <class Call>
    int run(Call call) {
        const uint64_t now = trims_now() + 1;  // making room may have trimmed
        const int status = count_ == 0 ? call() : call_for_memory(parts_[0].made.share, call);
        for (int at = 0; at < count_; ++at)
            done(parts_[at], status == cuda_success, now);
        return status;
    }

private:
    struct Part {
        int device;
        Reservation made;
    };

    void done(const Part& part, bool is_mapped, uint64_t now) {
        look_at_device(part.device, part.made.share);
        if (!is_mapped) return cancel(part.made);
        settle(part.made, 0, DRAWBRIDGE_GAUGE_GRAPH);
        executables.update(key_of(executable_, part.device), [now](Record& place) {
            place.owner = now;
            return true;
        });
    }

    const void* executable_;
    int count_ = 0;
    Part parts_[max_devices];
};

template <class Call>
int launch(void* executable, Call call) {
    if (!__atomic_load_n(&seen, __ATOMIC_RELAXED) || !enforcing()) return call();
    Mapping mapping(executable);
    return mapping.set_aside() ? mapping.run(call) : cuda_out_of_memory;
}

}  // namespace

void graph_memory_seen() {
    __atomic_store_n(&seen, true, __ATOMIC_RELAXED);
}

void refresh_graph_memory() {
    if (!__atomic_load_n(&seen, __ATOMIC_RELAXED)) return;
    for (int device = 0; device < process.device_count; ++device)
        look_at_device(device);
}

void trim_graph_memory(int first) {
    auto* trim = real<cuDeviceGraphMemTrim_function>(entry_cuDeviceGraphMemTrim);
    if (!__atomic_load_n(&seen, __ATOMIC_RELAXED) || trim == nullptr) return;
    for (int device = 0; device < process.device_count; ++device)
        if (share_of_device(device) == first) trim_device(device, trim);
}

void forget_graphs() {
    seen = false;
    executables.forget();
    for (Gauge& gauge : gauges)
        gauge = Gauge{};
    gauges_lock = Mutex{};
}

}  // namespace preload

using namespace preload;

extern "C" {

int cuGraphAddMemAllocNode(void* phGraphNode, void* hGraph, void* dependencies,
                           uint64_t numDependencies, void* nodeParams) {
    auto* function = real<cuGraphAddMemAllocNode_function>(entry_cuGraphAddMemAllocNode);
    if (function == nullptr) return cuda_not_initialized;
    graph_memory_seen();
    return function(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

int cuGraphAddNode(void* phGraphNode, void* hGraph, void* dependencies, uint64_t numDependencies,
                   void* nodeParams) {
    auto* function = real<cuGraphAddNode_function>(entry_cuGraphAddNode);
    if (function == nullptr) return cuda_not_initialized;
    int type = -1;
    if (nodeParams != nullptr) memcpy(&type, nodeParams, sizeof type);
    if (type == node_alloc) graph_memory_seen();
    return function(phGraphNode, hGraph, dependencies, numDependencies, nodeParams);
}

int cuGraphAddNode_v2(void* phGraphNode, void* hGraph, void* dependencies, void* dependencyData,
                      uint64_t numDependencies, void* nodeParams) {
    auto* function = real<cuGraphAddNode_v2_function>(entry_cuGraphAddNode_v2);
    if (function == nullptr) return cuda_not_initialized;
    int type = -1;
    if (nodeParams != nullptr) memcpy(&type, nodeParams, sizeof type);
    if (type == node_alloc) graph_memory_seen();
    return function(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams);
}

int cuGraphInstantiate(void* phGraphExec, void* hGraph, void* phErrorNode, void* logBuffer,
                       uint64_t bufferSize) {
    auto* function = real<cuGraphInstantiate_function>(entry_cuGraphInstantiate);
    if (function == nullptr) return cuda_not_initialized;
    return instantiated(function(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
                        phGraphExec, hGraph);
}

int cuGraphInstantiate_v2(void* phGraphExec, void* hGraph, void* phErrorNode, void* logBuffer,
                          uint64_t bufferSize) {
    auto* function = real<cuGraphInstantiate_v2_function>(entry_cuGraphInstantiate_v2);
    if (function == nullptr) return cuda_not_initialized;
    return instantiated(function(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
                        phGraphExec, hGraph);
}

int cuGraphInstantiateWithFlags(void* phGraphExec, void* hGraph, uint64_t flags) {
    auto* function = real<cuGraphInstantiateWithFlags_function>(entry_cuGraphInstantiateWithFlags);
    if (function == nullptr) return cuda_not_initialized;
    return instantiated(function(phGraphExec, hGraph, flags), phGraphExec, hGraph);
}

int cuGraphInstantiateWithParams(void* phGraphExec, void* hGraph, void* instantiateParams) {
    auto* function =
        real<cuGraphInstantiateWithParams_function>(entry_cuGraphInstantiateWithParams);
    if (function == nullptr) return cuda_not_initialized;
    return instantiated(function(phGraphExec, hGraph, instantiateParams), phGraphExec, hGraph);
}

int cuGraphInstantiateWithParams_ptsz(void* phGraphExec, void* hGraph, void* instantiateParams) {
    auto* function =
        real<cuGraphInstantiateWithParams_function>(entry_cuGraphInstantiateWithParams_ptsz);
    if (function == nullptr) return cuda_not_initialized;
    return instantiated(function(phGraphExec, hGraph, instantiateParams), phGraphExec, hGraph);
}

int cuGraphExecDestroy(void* hGraphExec) {
    auto* function = real<cuGraphExecDestroy_function>(entry_cuGraphExecDestroy);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing() || !__atomic_load_n(&seen, __ATOMIC_RELAXED)) return function(hGraphExec);
    Record records[max_devices];
    for (int device = 0; device < process.device_count; ++device)
        executables.take(key_of(hGraphExec, device), records[device]);
    const int status = function(hGraphExec);
    for (int device = 0; device < process.device_count; ++device) {
        if (records[device].key == 0) continue;
        if (status != cuda_success) executables.insert(records[device]);
        look_at_device(device);
    }
    return status;
}

int cuGraphUpload(void* hGraph, void* hStream) {
    auto* function = real<cuGraphUpload_function>(entry_cuGraphUpload);
    if (function == nullptr) return cuda_not_initialized;
    return launch(hGraph, [=] { return function(hGraph, hStream); });
}

int cuGraphUpload_ptsz(void* hGraphExec, void* hStream) {
    auto* function = real<cuGraphUpload_function>(entry_cuGraphUpload_ptsz);
    if (function == nullptr) return cuda_not_initialized;
    return launch(hGraphExec, [=] { return function(hGraphExec, hStream); });
}

int cuGraphLaunch(void* hGraph, void* hStream) {
    auto* function = real<cuGraphLaunch_function>(entry_cuGraphLaunch);
    if (function == nullptr) return cuda_not_initialized;
    return gated_launch(hStream, false,
                        [=] { return launch(hGraph, [=] { return function(hGraph, hStream); }); });
}

int cuGraphLaunch_ptsz(void* hGraphExec, void* hStream) {
    auto* function = real<cuGraphLaunch_function>(entry_cuGraphLaunch_ptsz);
    if (function == nullptr) return cuda_not_initialized;
    return gated_launch(hStream, true, [=] {
        return launch(hGraphExec, [=] { return function(hGraphExec, hStream); });
    });
}

int cuDeviceGraphMemTrim(int device) {
    auto* function = real<cuDeviceGraphMemTrim_function>(entry_cuDeviceGraphMemTrim);
    if (function == nullptr) return cuda_not_initialized;
    if (!enforcing()) return function(device);
    const int status = trim_device(device, function);
    look_at_device(device);
    return status;
}
}
