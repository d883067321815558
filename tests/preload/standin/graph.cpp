// Graphs of the stand-in: memory that allocation nodes map at the launch.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <set>

namespace standin {
namespace {

int make_executable(void** handle, Graph* graph) {
    auto* made = new Executable;
    std::set<std::uint64_t> addresses;
    for (const auto* node : graph->nodes) {
        const auto device = static_cast<std::size_t>(node->device);
        if (node->type == 10 && addresses.insert(node->address).second)
            made->bytes[device] += rounded(node->bytes, large_page);
        if (node->type == 11) made->frees = true;
    }
    for (std::uint64_t& bytes : made->bytes)
        bytes = rounded(bytes, pool_chunk);
    driver().executables.insert(made);
    *handle = made;
    return success;
}

int map_memory(Executable& executable) {
    for (std::size_t device = 0; device < executable.bytes.size(); ++device) {
        const std::uint64_t more = executable.bytes[device] - executable.mapped[device];
        if (more == 0) continue;
        if (!take_blocks(card(static_cast<int>(device)), more)) return out_of_memory;
        executable.mapped[device] += more;
        driver().graph_reserved[device] += more;
    }
    return success;
}

bool has_memory(const Executable& executable) {
    return executable.bytes != decltype(executable.bytes){};
}

struct AllocNode {
    std::uint32_t type, handle_types, location_type;
    std::int32_t location;
    std::uint8_t rest[72];
    std::uint64_t access, accesses, bytes, address;
};
static_assert(sizeof(AllocNode) == 120);

int launch(Executable* executable) {
    if (driver().executables.count(executable) == 0) return invalid_handle;
    if (executable->outstanding) return invalid_value;
    const int status = map_memory(*executable);
    if (status == success) executable->outstanding = has_memory(*executable) && !executable->frees;
    return status;
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

int cuGraphGetNodes(Graph* graph, void** nodes, std::uint64_t* count) {
    COUNT_CALL("cuGraphGetNodes");
    NEEDS_INIT();
    if (driver().graphs.count(graph) == 0) return invalid_value;
    for (std::size_t at = 0; nodes != nullptr && at < graph->nodes.size() && at < *count; ++at)
        nodes[at] = graph->nodes[at];
    *count = graph->nodes.size();
    return success;
}

int cuGraphNodeGetType(Graph::Node* node, int* type) {
    COUNT_CALL("cuGraphNodeGetType");
    *type = node->type;
    return success;
}

int cuGraphMemAllocNodeGetParams(Graph::Node* node, AllocNode* told) {
    COUNT_CALL("cuGraphMemAllocNodeGetParams");
    *told = {1, 0, 1, node->device, {}, 0, 0, node->bytes, node->address};
    return success;
}

int cuGraphCreate(Graph** graph, unsigned) {
    COUNT_CALL("cuGraphCreate");
    NEEDS_INIT();
    *graph = new Graph;
    driver().graphs.insert(*graph);
    return success;
}

int cuGraphAddMemAllocNode(Graph::Node** node, Graph* graph, const void*, std::uint64_t,
                           AllocNode* wanted) {
    COUNT_CALL("cuGraphAddMemAllocNode");
    NEEDS_INIT();
    if (driver().graphs.count(graph) == 0 || !known(wanted->location)) return invalid_value;
    wanted->address = fresh_address(wanted->bytes);
    *node = new Graph::Node{10, wanted->bytes, wanted->address, wanted->location};
    graph->nodes.push_back(*node);
    return success;
}

int cuGraphInstantiateWithFlags(void** executable, Graph* graph, std::uint64_t) {
    COUNT_CALL("cuGraphInstantiateWithFlags");
    NEEDS_INIT();
    return driver().graphs.count(graph) == 0 ? invalid_value : make_executable(executable, graph);
}

int cuGraphLaunch(Executable* executable, Stream*) {
    COUNT_CALL("cuGraphLaunch");
    NEEDS_INIT();
    return launch(executable);
}

int cuGraphLaunch_ptsz(Executable* executable, Stream*) {
    COUNT_CALL("cuGraphLaunch_ptsz");
    NEEDS_INIT();
    return launch(executable);
}

int cuGraphUpload(Executable* executable, Stream*) {
    COUNT_CALL("cuGraphUpload");
    NEEDS_INIT();
    return driver().executables.count(executable) == 0 ? invalid_handle : map_memory(*executable);
}

int cuGraphExecDestroy(Executable* executable) {
    COUNT_CALL("cuGraphExecDestroy");
    NEEDS_INIT();
    if (driver().executables.count(executable) == 0) return invalid_value;
    executable->outstanding = false;
    executable->bytes = {};  // its memory stays until it is trimmed
    return success;
}

int cuDeviceGraphMemTrim(int device) {
    COUNT_CALL("cuDeviceGraphMemTrim");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    for (Executable* one : driver().executables) {
        if (one->outstanding) continue;
        std::uint64_t& mapped = one->mapped[static_cast<std::size_t>(device)];
        give_blocks(card(device), mapped);
        driver().graph_reserved[device] -= mapped;
        mapped = 0;
    }
    return success;
}

int cuDeviceGetGraphMemAttribute(int device, int attribute, std::uint64_t* value) {
    COUNT_CALL("cuDeviceGetGraphMemAttribute");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    *value = attribute == 0 || attribute == 2 ? driver().graph_reserved[device] : 0;
    return success;
}
}
