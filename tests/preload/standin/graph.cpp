// Graphs of the stand-in: memory that allocation nodes map at the launch.
#include "tests/preload/standin/count.hpp"
#include "tests/preload/standin/driver.hpp"
#include "tests/preload/standin/world.hpp"

#include <cstring>

namespace standin {
namespace {

int make_executable(void** handle, Graph* graph) {
    std::uint64_t bytes = 0;
    bool frees = false;
    for (const auto* node : graph->nodes) {
        if (node->type == 10) bytes += rounded(node->bytes, large_page);
        if (node->type == 11) frees = true;
    }
    auto* made = new Executable{rounded(bytes, pool_chunk), 0, frees, false, graph->device};
    driver().executables.insert(made);
    *handle = made;
    return success;
}

int map_memory(Executable& executable) {
    if (executable.mapped == executable.bytes) return success;
    if (!take_blocks(card(executable.device), executable.bytes)) return out_of_memory;
    executable.mapped = executable.bytes;
    driver().graph_reserved[executable.device] += executable.bytes;
    return success;
}

int launch(Executable* executable) {
    if (driver().executables.count(executable) == 0) return invalid_handle;
    if (executable->outstanding) return invalid_value;
    const int status = map_memory(*executable);
    if (status == success) executable->outstanding = executable->bytes != 0 && !executable->frees;
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

int cuGraphMemAllocNodeGetParams(Graph::Node* node, std::uint64_t* words) {
    COUNT_CALL("cuGraphMemAllocNodeGetParams");
    std::memset(words, 0, 120);
    const std::uint32_t head[4] = {1, 0, 1, 0};
    std::memcpy(words, head, sizeof head);
    words[13] = node->bytes;
    words[14] = node->address;
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
    executable->bytes = 0;  // its memory stays until it is trimmed
    return success;
}

int cuDeviceGraphMemTrim(int device) {
    COUNT_CALL("cuDeviceGraphMemTrim");
    NEEDS_INIT();
    if (!known(device)) return invalid_device;
    for (Executable* one : driver().executables) {
        if (one->device != device || one->outstanding) continue;
        give_blocks(card(device), one->mapped);
        driver().graph_reserved[device] -= one->mapped;
        one->mapped = 0;
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
