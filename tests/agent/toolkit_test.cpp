#include "agent/cdi/toolkit_files.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

using namespace drawbridge::agent;
namespace fs = std::filesystem;

namespace {

constexpr std::string_view spec = R"(---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
    args: [nvidia-cdi-hook, update-ldcache, --folder, /usr/lib64]
  mounts:
  - hostPath: /usr/lib64/libcuda.so.570.1
    containerPath: /usr/lib64/libcuda.so.570.1
    options: [ro, nosuid, nodev, bind]
devices:
- name: "0"
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0, major: 195, minor: 0}]
- name: GPU-b
  containerEdits:
    deviceNodes: [{path: /dev/nvidia1, hostPath: /run/nvidia/driver/dev/nvidia1}, {path: /dev/dri/card1}]
- name: all
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0}, {path: /dev/nvidia1}]
)";

const std::vector<Device> cards = {
    {.uuid = "GPU-a", .place = {.index = 0}, .device_nodes = {{.path = "/dev/nvidia0"}}},
    {.uuid = "GPU-b", .place = {.index = 1}, .device_nodes = {{.path = "/dev/nvidia1"}}},
    {.uuid = "MIG-c",
     .place = {.index = 0},
     .mig = MigPlace{.parent_uuid = "GPU-a", .gpu_instance = 1, .compute_instance = 0}}};

/// A host with the driver's files, and two folders for CDI files.
class Host {
public:
    Host() {
        for (const char* file :
             {"dev/nvidiactl", "usr/bin/nvidia-cdi-hook", "usr/lib64/libcuda.so.570.1"})
            put(file, "");
    }
    void put(const std::string& file, std::string_view text) const {
        fs::create_directories(fs::path(folder_ / file).parent_path());
        std::ofstream(folder_ / file) << text;
    }
    void remove(const std::string& file) const { fs::remove(folder_ / file); }
    ToolkitAnswer look(std::string_view version = "570.1") { return files_.look(version, cards); }

private:
    drawbridge::test::Folder folder_;
    ToolkitFiles files_{{folder_ / "run", folder_ / "etc"}, folder_.path()};
};

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
    std::string made(text);
    made.replace(made.find(from), from.size(), to);
    return made;
}

}  // namespace

TEST_CASE("devices are found by UUID or number, MIG instances by UUID alone") {
    const auto read = read_toolkit_spec(spec);
    REQUIRE(read);
    REQUIRE(*read);
    const DriverEdits edits = toolkit_edits(**read, cards);
    CHECK(edits.common.hooks.front().args.size() == 4);
    REQUIRE(edits.devices.size() == 2);
    CHECK(edits.devices[0].name == "GPU-a");
    // Numbers are of the boot in which the file was written.
    CHECK(edits.devices[0].edits.nodes.front() == CdiNode{.path = "/dev/nvidia0"});
    CHECK(edits.devices[1].name == "GPU-b");
    CHECK(edits.devices[1].edits.nodes.size() == 2);
}

TEST_CASE("only what is of NVIDIA's GPUs counts, and it is taken over whole or not at all") {
    const auto other = read_toolkit_spec(replaced(spec, "nvidia.com/gpu", "vendor.com/nic"));
    REQUIRE(other);
    CHECK_FALSE(*other);
    const auto torn = read_toolkit_spec("kind: [nvidia.com/gpu");
    REQUIRE(torn);
    CHECK_FALSE(*torn);
    const auto more = read_toolkit_spec(replaced(spec, "  env:", "  additionalGids: [44]\n  env:"));
    REQUIRE_FALSE(more);
    CHECK(more.error().path == "/containerEdits/additionalGids");
    CHECK_FALSE(read_toolkit_spec(replaced(spec, "options: [ro", "type: tmpfs\n    options: [ro")));
}

TEST_CASE("a node of a device that the toolkit describes in its way is told once") {
    std::vector<Device> devices = {cards[0], cards[1]};
    for (Device& device : devices)
        device.memory_bytes = std::int64_t{8} << 30;
    devices[1].device_nodes.push_back({.path = "/dev/dri/card1", .major = 508, .minor = 3});
    const auto inventory = Inventory::make(devices, {}, {});
    REQUIRE(inventory);
    const ContainerView view{.driver = toolkit_edits(**read_toolkit_spec(spec), devices)};
    const CdiSpec made = claim_spec("c", {Share{.uuid = "GPU-b"}}, *inventory, view);
    const auto& nodes = made.devices.front().edits.nodes;
    REQUIRE(nodes.size() == 2);
    CHECK(nodes[0].host_path == "/run/nvidia/driver/dev/nvidia1");
    CHECK(nodes[1] == CdiNode{.path = "/dev/dri/card1", .major = 508, .minor = 3});
}

TEST_CASE("a node without a specification of the toolkit has no remark either") {
    Host host;
    CHECK_FALSE(host.look().edits);
    host.put("etc/vendor.yaml", "cdiVersion: 0.5.0\nkind: vendor.com/nic\ndevices: []\n");
    const ToolkitAnswer answer = host.look();
    CHECK_FALSE(answer.edits);
    CHECK(answer.remarks.empty());
}

TEST_CASE("the specification of the first folder that has a fitting one is used") {
    Host host;
    host.put("etc/nvidia.yaml", replaced(spec, "update-ldcache", "of-etc"));
    REQUIRE(host.look().edits);
    CHECK(host.look().edits->common.hooks.front().args[1] == "of-etc");
    host.put("run/nvidia.yaml", replaced(spec, "update-ldcache", "of-run"));
    CHECK(host.look().edits->common.hooks.front().args[1] == "of-run");
    host.put("run/nvidia.yaml", replaced(replaced(spec, "570.1", "560.9"), "570.1", "560.9"));
    const ToolkitAnswer older = host.look();
    REQUIRE(older.edits);
    CHECK(older.edits->common.hooks.front().args[1] == "of-etc");
    host.remove("etc/nvidia.yaml");
    const ToolkitAnswer none = host.look();
    CHECK_FALSE(none.edits);
    REQUIRE(none.remarks.size() == 1);
    CHECK(none.remarks[0].find("another driver than 570.1") != std::string::npos);
    CHECK(none.remarks[0].find("nvidia-ctk cdi generate --output=") != std::string::npos);
}

TEST_CASE("a specification that names what is not there is not used, until it is there") {
    Host host;
    host.put("etc/nvidia.yaml", spec);
    for (const std::string file :
         {"dev/nvidiactl", "usr/bin/nvidia-cdi-hook", "usr/lib64/libcuda.so.570.1"}) {
        host.remove(file);
        const ToolkitAnswer answer = host.look();
        CHECK_FALSE(answer.edits);
        REQUIRE(answer.remarks.size() == 1);
        CHECK(answer.remarks[0].find("/" + file + ", which is not there") != std::string::npos);
        host.put(file, "");
        CHECK(host.look().edits);
    }
    host.put("etc/nvidia.yaml", replaced(spec, "  env:", "  netDevices: []\n  env:"));
    CHECK(host.look().remarks.front().find("/containerEdits") != std::string::npos);
}
