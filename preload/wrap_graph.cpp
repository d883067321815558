#include "preload/charge.hpp"
#include "preload/graphs.hpp"
#include "preload/launch.hpp"
#include "preload/os.hpp"
#include "preload/pools.hpp"
#include "preload/resolve.hpp"

#include <string.h>

namespace preload {
namespace {

constexpr int node_alloc = 10;  // CUgraphNodeType
constexpr int node_child = 4;
constexpr uint64_t chunk = 32 * mib;  // what graph memory has been seen to grow by

bool seen;
Table executables;  // handle -> foot-print; `owner` is the trim count at which its memory was last
                    // mapped, plus one
uint64_t trims;

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

uint64_t footprint(void* graph, int& device, int depth);

uint64_t node_footprint(void* node, int& device, int depth) {
    int type = -1;
    if (helpers.node_type(node, &type) != cuda_success) return 0;
    void* child = nullptr;
    if (type == node_child && helpers.child_graph != nullptr && depth < 16 &&
        helpers.child_graph(node, &child) == cuda_success)
        return footprint(child, device, depth + 1);
    AllocNode parameters = {};
    if (type != node_alloc || helpers.alloc_node(node, &parameters) != cuda_success) return 0;
    device = parameters.location;
    return ledger::rounded_linear(parameters.bytes);
}

// Bytes of all allocation nodes of a graph, and the device that they are on.
uint64_t footprint(void* graph, int& device, int depth) {
    uint64_t count = 0;
    if (helpers.graph_nodes == nullptr || helpers.node_type == nullptr ||
        helpers.alloc_node == nullptr)
        return 0;
    if (helpers.graph_nodes(graph, nullptr, &count) != cuda_success || count == 0) return 0;
    auto** nodes = static_cast<void**>(pages(count * sizeof(void*)));
    if (nodes == nullptr) return 0;
    uint64_t bytes = 0;
    const uint64_t space = count * sizeof(void*);
    if (helpers.graph_nodes(graph, nodes, &count) == cuda_success)
        for (uint64_t at = 0; at < count; ++at)
            bytes += node_footprint(nodes[at], device, depth);
    unmap(nodes, space);
    return bytes;
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

int instantiated(int status, void* executable, void* graph) {
    if (status != cuda_success || !enforcing() || !__atomic_load_n(&seen, __ATOMIC_RELAXED))
        return status;
    int device = -1;
    const uint64_t bytes = footprint(graph, device, 0);
    if (bytes != 0)
        executables.insert({reinterpret_cast<uint64_t>(*static_cast<void**>(executable)), bytes, 0,
                            static_cast<int16_t>(device), Kind::graph_block});
    return status;
}

// The memory that a launch maps is set aside before, unless it is mapped already; then the driver's
// figure counts.
template <class Call>
int launch(void* executable, Call call) {
    Record record;
    if (!__atomic_load_n(&seen, __ATOMIC_RELAXED) || !enforcing() ||
        !executables.find(reinterpret_cast<uint64_t>(executable), record))
        return call();
    const int device = record.share;
    Reservation made;
    const uint64_t bytes = (record.bytes + chunk - 1) / chunk * chunk;
    if (record.owner != trims_now() + 1 && !reserve(device, bytes, made)) return cuda_out_of_memory;
    const uint64_t now = trims_now() + 1;  // making room may have trimmed
    const int status = call();
    look_at_device(device, made.share);
    if (status != cuda_success) {
        cancel(made);
        return status;
    }
    settle(made, 0, DRAWBRIDGE_GAUGE_GRAPH);
    executables.update(record.key, [now](Record& place) {
        place.owner = now;
        return true;
    });
    return status;
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
    Record record;
    const bool known = executables.take(reinterpret_cast<uint64_t>(hGraphExec), record);
    const int status = function(hGraphExec);
    if (known && status != cuda_success) executables.insert(record);
    if (known) look_at_device(record.share);
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
