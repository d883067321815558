#include "agent/device/device.hpp"

#include "agent/device/device_list.hpp"
#include "agent/device/inventory.hpp"
#include "agent/node_settings.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge::agent;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

Device gpu(const std::string& uuid, const std::string& bus = "0000:01:00.0",
           std::int64_t memory = 80 * gib) {
    return {.uuid = uuid, .place = {.pci_bus_id = bus}, .memory_bytes = memory};
}

}  // namespace

TEST_CASE("a device's name depends on its UUID and on nothing else") {
    Device device = gpu("GPU-1");
    const std::string name = device_name(device);
    device.place.index = 7;
    device.place.pci_bus_id = "0000:ff:00.0";
    device.product_name = "another";
    CHECK(device_name(device) == name);
    CHECK(device_name(gpu("GPU-2")) != name);
    CHECK(name.starts_with("gpu-"));
    CHECK(name.size() <= 63);
}

TEST_CASE("PCI addresses are written as the kernel does") {
    const std::pair<std::string_view, std::string_view> rows[] = {
        {"00000000:3B:00.0", "0000:3b:00.0"},
        {"0000:3b:00.0", "0000:3b:00.0"},
        {"00010000:3B:00.0", "00010000:3b:00.0"},
        {"", ""}};
    for (const auto& [given, wanted] : rows)
        CHECK(normal_bus_id(given) == wanted);
}

TEST_CASE("a device list is read, YAML or JSON") {
    const auto devices = parse_device_list(
        "apiVersion: drawbridge.dev/v1\n"
        "kind: DeviceList\n"
        "devices:\n"
        "- uuid: GPU-1\n"
        "  memory: 80Gi\n"
        "  pciBusID: '00000000:3B:00.0'\n"
        "  numaNode: 1\n"
        "  taints: [{key: gpu-lost, effect: NoExecute}]\n");
    REQUIRE(devices);
    REQUIRE(devices->size() == 1);
    CHECK(devices->front().memory_bytes == 80 * gib);
    CHECK(devices->front().place.pci_bus_id == "0000:3b:00.0");
    CHECK(devices->front().place.numa_node == 1);
    CHECK(is_lost(devices->front()));
}

TEST_CASE("what is wrong with a device list is named with its place") {
    const std::pair<std::string_view, std::string_view> rows[] = {
        {R"({"kind":"DeviceList","devices":[]})", "/apiVersion"},
        {R"({"apiVersion":"drawbridge.dev/v1","kind":"X"})", "/kind"},
        {R"({"apiVersion":"drawbridge.dev/v1","kind":"DeviceList","devices":{}})", "/devices"},
        {R"({"apiVersion":"drawbridge.dev/v1","kind":"DeviceList","more":1})", "/more"},
        {R"({"apiVersion":"drawbridge.dev/v1","kind":"DeviceList","devices":[{"memory":"1Gi"}]})",
         "/devices/0/uuid"},
        {R"({"apiVersion":"drawbridge.dev/v1","kind":"DeviceList","devices":[{"uuid":"a"}]})",
         "/devices/0/memory"},
        {R"({"apiVersion":"drawbridge.dev/v1","kind":"DeviceList","devices":[
             {"uuid":"a","memory":"1Gi"},{"uuid":"a","memory":"1Gi"}]})",
         "/devices/1/uuid"},
        {R"({"apiVersion":"drawbridge.dev/v1","kind":"DeviceList","devices":[
             {"uuid":"a","memory":"1Gi","taints":[{"key":"x","effect":"Sometimes"}]}]})",
         "/devices/0/taints/0/effect"}};
    for (const auto& [text, path] : rows) {
        const auto read = parse_device_list(text);
        REQUIRE_FALSE(read);
        CHECK(read.error().path == path);
    }
}

TEST_CASE("offered memory is HAMi's figure in whole MiB") {
    struct Row {
        std::int64_t memory;
        double scaling;
        std::int64_t headroom;
        std::int64_t mib;
    };
    const Row rows[] = {{80 * gib, 1, 0, 81920},
                        {80 * gib + 1, 1, 0, 81920},
                        {80 * gib, 1.8, 0, 147456},
                        {80 * gib, 0.5, 0, 40960},
                        {(std::int64_t{81559} << 20) + 12345, 1.1, 0, 89714},
                        {80 * gib, 1, 300, 81620},
                        {1, 1, 300, 1}};
    for (const Row& row : rows) {
        const NodeSettings settings{.memory_scaling = row.scaling, .headroom_mib = row.headroom};
        CHECK(offered_memory(gpu("a", "", row.memory), settings) == row.mib << 20);
    }
}

TEST_CASE("a MIG instance is not scaled") {
    Device device = gpu("MIG-1");
    device.type = DeviceType::mig;
    device.mig = MigPlace{"GPU-1", 1, 0};
    const auto made =
        Inventory::make({device}, {.memory_scaling = 2, .core_scaling = 2}, PublishedSizes());
    REQUIRE(made);
    CHECK(made->offers().front().capacity == Amounts{80 * gib, 100, 10});
}

TEST_CASE("offers are in the order of their PCI addresses") {
    const auto made = Inventory::make({gpu("a", "0000:3b:00.0"), gpu("b", "0000:02:00.0")}, {}, {});
    REQUIRE(made);
    CHECK(made->offers().front().device.uuid == "b");
    CHECK(made->find(device_name(gpu("a")))->device.uuid == "a");
    CHECK(made->find("gpu-none") == nullptr);
}

TEST_CASE("devices are left out by UUID, by their card's UUID and by index") {
    Device mig = gpu("MIG-1");
    mig.mig = MigPlace{"GPU-1", 0, 0};
    mig.place.index = 1;
    Device third = gpu("GPU-3");
    third.place.index = 3;
    const auto made = Inventory::make({gpu("GPU-2"), mig, third},
                                      {.exclude = {.uuids = {"GPU-1"}, .indices = {3}}}, {});
    REQUIRE(made);
    REQUIRE(made->offers().size() == 1);
    CHECK(made->offers().front().device.uuid == "GPU-2");
}

TEST_CASE("a size that was published before is kept") {
    const auto made = Inventory::make({gpu("a")}, {}, {{"a", 79 * gib}});
    REQUIRE(made);
    CHECK(made->offers().front().capacity.memory_bytes == 79 * gib);
    CHECK(made->sizes() == PublishedSizes{{"a", 79 * gib}});
}

TEST_CASE("node settings are read in every form") {
    struct Row {
        std::string_view text;
        NodeSettings wanted;
    };
    const Row rows[] = {
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, splitCount: 3}", {.split_count = 3}},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, splitCount: 3,"
         " nodes: [{name: other, splitCount: 4}, {name: node, memoryScaling: 2}]}",
         {.split_count = 3, .memory_scaling = 2}},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, longestPauseSeconds: 30,"
         " pauseBreakSeconds: 5, nodes: [{name: node, pauseBreakSeconds: 0}]}",
         {.rules = {.pauses = {.longest = 30, .free = 0}}}},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, replaceLibcuda: true,"
         " nodes: [{name: other, replaceLibcuda: false}]}",
         {.replace_libcuda = true}},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings,"
         " nodes: [{name: other}, {name: node, replaceLibcuda: true}]}",
         {.replace_libcuda = true}},
        {"nvidia: {deviceSplitCount: 5, deviceMemoryScaling: 1.5, deviceCoreScaling: 2, more: 1}",
         {.split_count = 5, .memory_scaling = 1.5, .core_scaling = 2}},
        {R"({"nodeconfig":[{"name":"node","devicesplitcount":6,"devicememoryscaling":1.8,
            "filterdevices":{"uuid":["u"],"index":[2]}},{"name":"m","devicesplitcount":9}]})",
         {.split_count = 6, .memory_scaling = 1.8, .exclude = {{"u"}, {2}}}},
        {R"({"nodeconfig":[{"name":"node","devicesplitcount":0,"devicememoryscaling":0}]})", {}},
        {"kind: ConfigMap\ndata:\n  device-config.yaml: |\n    nvidia:\n      deviceSplitCount: "
         "7\n",
         {.split_count = 7}}};
    for (const Row& row : rows) {
        const auto read = parse_node_settings(row.text, "node");
        REQUIRE_MESSAGE(read, row.text);
        CHECK(*read == row.wanted);
    }
}

TEST_CASE("wrong node settings are refused with their place, those of other nodes too") {
    const std::pair<std::string_view, std::string_view> rows[] = {
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, splitCount: 0}", "/splitCount"},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, splitcount: 1}", "/splitcount"},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, memoryScaling: -1}",
         "/memoryScaling"},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, memoryScaling: nan}",
         "/memoryScaling"},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings,"
         " nodes: [{name: other, splitCount: x}]}",
         "/nodes/0/splitCount"},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, replaceLibcuda: 1}",
         "/replaceLibcuda"},
        {"nvidia: {deviceSplitCount: many}", "/nvidia/deviceSplitCount"},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, longestPauseSeconds: 0}",
         "/longestPauseSeconds"},
        {"{apiVersion: drawbridge.dev/v1, kind: AgentSettings, pauseBreakSeconds: 3601}",
         "/pauseBreakSeconds"},
        {"{}", "/apiVersion"}};
    for (const auto& [text, path] : rows) {
        const auto read = parse_node_settings(text, "node");
        REQUIRE_FALSE(read);
        CHECK(read.error().path == path);
    }
}
