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
    {.uuid = "GPU-b",
     .place = {.pci_bus_id = "0000:02:00.0", .index = 1},
     .device_nodes = {{.path = "/dev/nvidia1"}}},
    {.uuid = "MIG-c",
     .place = {.index = 0},
     .mig = MigPlace{.parent_uuid = "GPU-a", .gpu_instance = 1, .compute_instance = 0}}};

/// Everything that the specification names.
const std::vector<std::string> files = {
    "dev/nvidiactl", "usr/bin/nvidia-cdi-hook",       "usr/lib64/libcuda.so.570.1",
    "dev/nvidia0",   "run/nvidia/driver/dev/nvidia1", "dev/dri/card1"};

/// A host with the driver's files, and two folders for CDI files.
class Host {
public:
    Host() {
        for (const std::string& file : files)
            put(file, "");
        put("sys/bus/pci/devices/0000:02:00.0/drm/card1/dev", "226:1");
    }
    void put(const std::string& file, std::string_view text) const {
        fs::create_directories(fs::path(folder_ / file).parent_path());
        std::ofstream(folder_ / file) << text;
    }
    void remove(const std::string& file) const { fs::remove(folder_ / file); }
    void link(const std::string& file, const std::string& to) const {
        fs::create_directories(fs::path(folder_ / file).parent_path());
        fs::create_symlink(to, folder_ / file);
    }
    ToolkitAnswer look(std::string_view version = "570.1",
                       const std::vector<Device>& devices = cards) {
        return files_.look(version, devices);
    }

private:
    drawbridge::test::Folder folder_;
    ToolkitFiles files_{{folder_ / "run", folder_ / "etc"}, folder_.path()};
};

/// Why the one specification of the host is not used; empty: it is.
std::string reason(const ToolkitAnswer& answer) {
    CHECK(answer.edits.has_value() == answer.remarks.empty());
    return answer.remarks.empty() ? std::string() : answer.remarks.front();
}

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
    host.put("etc/nvidia.yaml", replaced(spec, "--folder", "of-etc"));
    REQUIRE(host.look().edits);
    CHECK(host.look().edits->common.hooks.front().args[2] == "of-etc");
    host.put("run/nvidia.yaml", replaced(spec, "--folder", "of-run"));
    CHECK(host.look().edits->common.hooks.front().args[2] == "of-run");
    host.put("run/nvidia.yaml", replaced(replaced(spec, "570.1", "560.9"), "570.1", "560.9"));
    const ToolkitAnswer older = host.look();
    REQUIRE(older.edits);
    CHECK(older.edits->common.hooks.front().args[2] == "of-etc");
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
    for (const std::string& file : files) {
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

TEST_CASE("no card is given the nodes that were another's when the specification was written") {
    Host host;
    host.put("etc/nvidia.yaml", spec);
    REQUIRE(host.look().edits);
    // A card has gone, or come, and the driver counts anew: by its number, and by its UUID.
    std::vector<Device> moved = cards;
    moved[0].device_nodes = {{.path = "/dev/nvidia1"}};
    CHECK(reason(host.look("570.1", moved)).find("/dev/nvidia0 to GPU-a") != std::string::npos);
    moved = cards;
    moved[1].device_nodes = {{.path = "/dev/nvidia0"}};
    CHECK(reason(host.look("570.1", moved)).find("/dev/nvidia1 to GPU-b") != std::string::npos);
    // Graphics nodes are counted by the kernel, with other cards among them.
    moved = cards;
    moved[1].place.pci_bus_id = "0000:03:00.0";
    CHECK(reason(host.look("570.1", moved)).find("/dev/dri/card1 to GPU-b") != std::string::npos);
    for (const std::string node :
         {"/dev/nvidia1", "/dev/dri/card1", "/dev/nvidia-caps/nvidia-cap1"}) {
        host.put("etc/nvidia.yaml", replaced(spec, "/dev/nvidiactl", node));
        CHECK(reason(host.look()).find(node + " to every container") != std::string::npos);
    }
}

TEST_CASE("a card that is lost keeps no other one from the specification") {
    Host host;
    host.put("etc/nvidia.yaml", spec);
    host.remove("dev/nvidia0");
    CHECK_FALSE(host.look().edits);
    std::vector<Device> devices = cards;
    devices[0].faults = {{.key = std::string(lost_key)}};
    CHECK(host.look("570.1", devices).edits);
    // A node that is given by its number need not lie on the host.
    devices[0] = cards[0];
    devices[0].device_nodes[0].major = devices[0].device_nodes[0].minor = 195;
    CHECK(host.look("570.1", devices).edits);
}

TEST_CASE("what a specification names is looked for as the host sees it") {
    Host host;
    host.put("etc/nvidia.yaml",
             replaced(spec, "hostPath: /usr/lib64", "hostPath: /var/run/driver"));
    CHECK_FALSE(host.look().edits);
    host.link("var/run", "/run");  // absolute
    host.put("run/driver/libcuda.so.570.1", "");
    CHECK(host.look().edits);
    // A link to nothing is nothing that can be mounted.
    host.remove("run/driver/libcuda.so.570.1");
    host.link("run/driver/libcuda.so.570.1", "/nowhere");
    CHECK_FALSE(host.look().edits);
}

TEST_CASE("a specification without the hook for the linker's cache is not used") {
    Host host;
    host.put("etc/nvidia.yaml", replaced(spec, "update-ldcache", "create-symlinks"));
    CHECK(reason(host.look()).find("no hook update-ldcache") != std::string::npos);
}

TEST_CASE("links to what is mounted are mounted, and no hook makes them") {
    const auto read = read_toolkit_spec(replaced(spec, "  hooks:\n", R"(  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-ctk
    args: [nvidia-ctk, hook, create-symlinks, --link, "libcuda.so.570.1::/usr/lib64/libcuda.so.1",
           --link, "libcuda.so.1::/usr/lib64/libcuda.so", --link, odd, --link]
  - hookName: createContainer
    path: /usr/bin/nvidia-ctk
    args: [nvidia-ctk, create-symlinks, --link, "libcuda.so.570.1::/usr/lib64/libcuda.so.1"]
)"));
    REQUIRE(read);
    const CdiEdits common = toolkit_edits(**read, cards).common;
    REQUIRE(common.mounts.size() == 2);
    CHECK(common.mounts[1].host_path == "/usr/lib64/libcuda.so.570.1");
    CHECK(common.mounts[1].container_path == "/usr/lib64/libcuda.so.1");
    CHECK(common.mounts[1].options == common.mounts[0].options);
    REQUIRE(common.hooks.size() == 2);
    CHECK(common.hooks[0].args == std::vector<std::string>{"nvidia-ctk", "hook", "create-symlinks",
                                                           "--link",
                                                           "libcuda.so.1::/usr/lib64/libcuda.so",
                                                           "--link", "odd", "--link"});
    CHECK(common.hooks[1].args[1] == "update-ldcache");
}

TEST_CASE("a control node that the specification lacks is given beside it") {
    const DriverEdits own{
        .common = {.nodes = {{.path = "/dev/nvidiactl"}, {.path = "/dev/nvidia-uvm"}},
                   .mounts = {{"/lib/a", "/lib/a", {}}}},
        .node_root = "/d",
        .remarks = {"told"}};
    const DriverEdits both = in_place_of(
        own, {.common = {.nodes = {{.path = "/dev/nvidiactl", .host_path = "/d/dev/nvidiactl"}}},
              .devices = {{.name = "GPU-a"}}});
    REQUIRE(both.common.nodes.size() == 2);
    CHECK(both.common.nodes[0].host_path == "/d/dev/nvidiactl");
    CHECK(both.common.nodes[1].path == "/dev/nvidia-uvm");
    CHECK(both.common.mounts.empty());
    CHECK(both.devices.size() == 1);
    CHECK(both.node_root == "/d");
    CHECK(both.remarks.size() == 1);
}

TEST_CASE("behind the front no hook puts an image's own libcuda first") {
    const CdiHook compat{
        .name = "createContainer",
        .path = "/h",
        .args = {"nvidia-cdi-hook", "enable-cuda-compat", "--host-driver-version=570.1"}};
    const CdiHook cache{.name = "createContainer", .path = "/h", .args = {"h", "update-ldcache"}};
    const DriverEdits driver{
        .common = {.mounts = {{"/d/libcuda.so.570.1", "/lib/libcuda.so.570.1", {}}},
                   .hooks = {compat, cache}}};
    CHECK(behind_front(driver, "/front.so").common.hooks == std::vector<CdiHook>{cache});
}
