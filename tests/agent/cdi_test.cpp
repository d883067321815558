#include "agent/cdi/cdi_spec.hpp"
#include "agent/cdi/enforcement.hpp"
#include "base/json.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>

using namespace drawbridge::agent;
using nlohmann::json;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

Inventory inventory(int count) {
    std::vector<Device> devices;
    for (int i = 0; i < count; ++i) {
        devices.push_back({.uuid = "GPU-" + std::to_string(i),
                           .place = {.pci_bus_id = "0000:0" + std::to_string(count - i) + ":00.0"},
                           .memory_bytes = 80 * gib,
                           .device_nodes = {{.path = "/dev/nvidia" + std::to_string(i)}}});
    }
    auto made = Inventory::make(devices, {}, {});
    REQUIRE(made);
    return *made;
}

Share share(const std::string& uuid, std::int64_t memory = gib, std::int64_t cores = 0) {
    return {.uuid = uuid, .amounts = {memory, cores, 1}};
}

}  // namespace

TEST_CASE("the files of any two claims can be merged in one container") {
    const Inventory devices = inventory(2);
    const ContainerView view{.shares_folder = "/shares", .library = {"/lib/x.so", "/lib/preload"}};
    const CdiSpec one = claim_spec("one", {share("GPU-0"), share("GPU-0")}, devices, view);
    const CdiSpec two = claim_spec("two", {share("GPU-0"), share("GPU-1")}, devices, view);
    CHECK(one.common == two.common);
    std::set<std::string> targets;
    std::set<std::string> names;
    for (const CdiSpec* spec : {&one, &two}) {
        for (const CdiDevice& device : spec->devices) {
            CHECK(device.edits.env.empty());
            CHECK(names.insert(device.name).second);
            for (const CdiMount& mount : device.edits.mounts)
                CHECK(targets.insert(mount.container_path).second);
        }
    }
    CHECK(targets.size() == 8);
}

TEST_CASE("limits are read-only, the ledger is not executable, and only a whole build is mounted") {
    const Inventory devices = inventory(1);
    const CdiSpec bare = claim_spec("c", {share("GPU-0")}, devices, {.shares_folder = "/s"});
    CHECK(bare.common.mounts.empty());
    REQUIRE(bare.devices.size() == 1);
    const auto& mounts = bare.devices[0].edits.mounts;
    REQUIRE(mounts.size() == 2);
    CHECK(mounts[0].host_path == "/s/c-0/limits");
    CHECK(mounts[0].options.front() == "ro");
    CHECK(mounts[1].options.front() == "rw");
    CHECK(std::ranges::find(mounts[1].options, "noexec") != mounts[1].options.end());
    const CdiSpec full = claim_spec("c", {share("GPU-0")}, devices,
                                    {.shares_folder = "/s", .library = {"/l/a.so", "/l/preload"}});
    CHECK(full.common.mounts.size() == 2);
}

TEST_CASE(
    "the front stands in the place of every libcuda, and the driver's own where the front finds "
    "it") {
    const DriverEdits driver{
        .common = {.mounts = {{"/d/lib64/libcuda.so.570.1", "/lib64/libcuda.so.570.1", {"ro"}},
                              {"/d/lib64/libcuda.so.570.1", "/lib64/libcuda.so.1", {"ro"}},
                              {"/d/lib64/libcudadebugger.so.1", "/lib64/libcudadebugger.so.1"},
                              {"/d/lib/libcuda.so.570.1", "/lib/libcuda.so.1"}}}};
    const ContainerView view{.shares_folder = "/s",
                             .library = {"/l/a.so", "/l/preload", "/l/front.so"},
                             .driver = driver};
    const CdiSpec spec = claim_spec("c", {share("GPU-0")}, inventory(1), view);
    std::map<std::string, std::string> lies;
    for (const CdiMount& mount : spec.common.mounts) {
        CHECK(lies.emplace(mount.container_path, mount.host_path).second);
        CHECK(std::ranges::find(mount.options, "noexec") ==
              (mount.container_path == "/etc/ld.so.preload" ? mount.options.begin() + 3
                                                            : mount.options.end()));
    }
    CHECK(lies == std::map<std::string, std::string>{
                      {"/lib64/libcuda.so.570.1", "/l/front.so"},
                      {"/lib64/libcuda.so.1", "/l/front.so"},
                      {"/lib/libcuda.so.1", "/l/front.so"},
                      {"/lib64/libcudadebugger.so.1", "/d/lib64/libcudadebugger.so.1"},
                      {"/run/drawbridge/driver/libcuda.so.1", "/d/lib64/libcuda.so.570.1"},
                      {"/run/drawbridge/lib/libdrawbridge.so", "/l/a.so"},
                      {"/etc/ld.so.preload", "/l/preload"}});
    Share admin = share("GPU-0");
    admin.admin = true;
    CHECK(claim_spec("c", {admin}, inventory(1), view).common.mounts == driver.common.mounts);
    CHECK(behind_front({}, "/l/front.so") == DriverEdits());
}

TEST_CASE("HAMi's variables count devices as CUDA does in PCI order") {
    const Inventory devices = inventory(3);  // GPU-2 comes first on the bus
    const auto variables =
        legacy_variables({share("GPU-0", 2 * gib, 30), share("GPU-2", 3 * gib)}, devices);
    CHECK(variables == std::vector<std::string>{
                           "CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_DEVICE_MEMORY_LIMIT_0=3072m",
                           "CUDA_DEVICE_SM_LIMIT_0=100", "CUDA_DEVICE_MEMORY_LIMIT_1=2048m",
                           "CUDA_DEVICE_SM_LIMIT_1=30"});
}

TEST_CASE("file names and IDs are what the CDI library makes of them") {
    CHECK(cdi_file_name("u") == "k8s.gpu.drawbridge.dev-claim_u.json");
    CHECK(claim_of_cdi_file(cdi_file_name("u")) == "u");
    CHECK(claim_of_cdi_file("nvidia.yaml") == std::nullopt);
    CHECK(claim_of_cdi_file("k8s.gpu.drawbridge.dev-claim_.json") == std::nullopt);
    CHECK(cdi_id("u-0") == "k8s.gpu.drawbridge.dev/claim=u-0");
}

TEST_CASE("another tool's specification is taken over whole or not at all") {
    const auto read = [](const char* text) {
        const auto document = drawbridge::base::parse_json(text);
        REQUIRE(document);
        return read_cdi_spec(document->root());
    };
    const auto spec = read(
        R"({"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","containerEdits":{"env":["A=b"],
            "hooks":[{"hookName":"createContainer","path":"/h","args":["h","x"]}],
            "mounts":[{"hostPath":"/a","containerPath":"/b","options":["ro"]}]},
            "devices":[{"name":"0","containerEdits":{"deviceNodes":[
                {"path":"/dev/nvidia0","major":195,"minor":0}]}}]})");
    REQUIRE(spec);
    CHECK(spec->common.hooks.front().args.size() == 2);
    CHECK(spec->devices.front().edits.nodes.front().major == 195);
    CHECK_FALSE(read(R"({"containerEdits":{"netDevices":[]}})"));
}

TEST_CASE("edits that are there already are not added again") {
    CdiEdits edits{.env = {"A=1"}};
    add_edits(edits, {.env = {"A=1", "B=2"}});
    CHECK(edits.env == std::vector<std::string>{"A=1", "B=2"});
}
