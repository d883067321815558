#include "agent/cdi/driver_places.hpp"

#include "agent/cdi/driver_files.hpp"
#include "agent/cdi/enforcement.hpp"
#include "agent/source/device_source.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace drawbridge::agent;
namespace fs = std::filesystem;

namespace {

/// A host's root in a folder.
class Host {
public:
    [[nodiscard]] std::string root() const { return folder_.path().string(); }
    void file(std::string_view path, std::string_view text = "") const {
        fs::create_directories(at(path).parent_path());
        std::ofstream(at(path)) << text;
    }
    void link(std::string_view path, const std::string& to) const {
        fs::create_directories(at(path).parent_path());
        fs::create_symlink(to, at(path));
    }
    void standin(std::string_view folder) const {
        fs::create_directories(at(folder));
        fs::copy_file(DRAWBRIDGE_STANDIN_NVML, at(std::string(folder) + "/libnvidia-ml.so.1"));
    }
    /// As if nothing had been changed for an hour.
    void age() const {
        for (const auto& entry : fs::recursive_directory_iterator(root()))
            if (entry.is_directory())
                fs::last_write_time(entry,
                                    fs::file_time_type::clock::now() - std::chrono::hours(1));
    }
    void gpu() const {
        file("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
        file("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
    }

private:
    [[nodiscard]] fs::path at(std::string_view path) const {
        return fs::path(root() + std::string(path));
    }
    drawbridge::test::Folder folder_;
};

constexpr std::string_view libraries = "/usr/lib/x86_64-linux-gnu";
const std::string container = "/run/nvidia/driver";

}  // namespace

TEST_CASE("a driver is looked for on the host, then in the container of the GPU Operator") {
    const DriverPlaces places = driver_places("/host", {});
    REQUIRE(places.roots.size() == 2);
    CHECK(places.roots[0].seen == "/host");
    CHECK(places.roots[0].host.empty());
    CHECK(places.roots[1].seen == "/host/run/nvidia/driver");
    CHECK(places.roots[1].host == container);
    CHECK_FALSE(places.expected);
    const DriverPlaces named = driver_places("/host", {.seen = "/d", .host = "/opt/d"});
    REQUIRE(named.roots.size() == 1);
    CHECK(named.roots[0].host == "/opt/d");
    CHECK(named.expected);
}

TEST_CASE("a driver of the host is found, and its files are named as the host has them") {
    const Host host;
    host.standin(libraries);
    host.file("/dev/nvidiactl");
    host.file("/dev/nvidia-uvm");
    host.file("/usr/bin/nvidia-smi");
    const auto source = make_nvml_source(driver_places(host.root(), {}));
    const auto devices = source->read();
    REQUIRE_MESSAGE(devices, (devices ? "" : devices.error().message));
    CHECK_FALSE(devices->empty());
    const auto edits = source->edits();
    REQUIRE(edits);
    CHECK(edits->node_root.empty());
    REQUIRE(edits->common.nodes.size() == 2);
    CHECK(edits->common.nodes[1] == CdiNode{.path = "/dev/nvidia-uvm"});
    REQUIRE_FALSE(edits->common.mounts.empty());
    CHECK(edits->common.mounts.back().host_path == "/usr/bin/nvidia-smi");
}

TEST_CASE("without /dev/nvidia-uvm it is said what to do, until it comes") {
    const Host host;
    host.standin(libraries);
    const auto source = make_nvml_source(driver_places(host.root(), {}));
    REQUIRE(source->read());
    CHECK(source->edits()->remarks.empty());  // no node at all is not a driver that lacks one
    host.file("/dev/nvidiactl");
    const auto lacks = source->edits();
    REQUIRE(lacks->remarks.size() == 1);
    CHECK(lacks->remarks[0].find("nvidia-modprobe -c 0 -u") != std::string::npos);
    host.file("/dev/nvidia-uvm");
    const auto whole = source->edits();
    CHECK(whole->remarks.empty());
    CHECK(whole->common.nodes.size() == 2);
}

TEST_CASE("the driver's folders are read again when one of them has changed") {
    const Host host;
    host.standin(libraries);
    host.file("/usr/bin/bash");
    host.age();
    const auto source = make_nvml_source(driver_places(host.root(), {}));
    REQUIRE(source->read());
    const std::size_t before = source->edits()->common.mounts.size();
    CHECK(source->edits()->common.mounts.size() == before);
    const std::string version = source->read()->front().versions.driver;
    host.file(std::string(libraries) + "/libnvidia-nvvm.so." + version);
    CHECK(source->edits()->common.mounts.size() == before + 4);
    host.age();
    CHECK(source->edits()->common.mounts.size() == before + 4);
    host.file("/usr/bin/nvidia-smi");
    CHECK(source->edits()->common.mounts.size() == before + 5);
    // A change in the same tick of the file system's clock leaves the time as it was.
    const fs::path folder = host.root() + "/usr/bin";
    auto time = fs::last_write_time(folder);
    host.file("/usr/bin/nvidia-debugdump");
    fs::last_write_time(folder, time);
    CHECK(source->edits()->common.mounts.size() == before + 6);
    // A folder that has been as it is for long is not read.
    host.age();
    CHECK(source->edits()->common.mounts.size() == before + 6);
    time = fs::last_write_time(folder);
    host.file("/usr/bin/nvidia-persistenced");
    fs::last_write_time(folder, time);
    CHECK(source->edits()->common.mounts.size() == before + 6);
}

TEST_CASE("libraries that Debian keeps aside are mounted where the linker looks") {
    const Host host;
    const std::string aside = std::string(libraries) + "/nvidia/current";
    host.file(aside + "/libcuda.so.550.1");
    host.file(aside + "/libnvidia-ml.so.550.1");
    host.file(aside + "/libnvidia-nvvm.so.550.1");
    host.link(aside + "/libnvidia-nvvm.so.4", "libnvidia-nvvm.so.550.1");  // libcuda asks for it
    host.link(aside + "/libnvidia-nvvm.so", "libnvidia-nvvm.so.550.1");
    host.link(aside + "/libnvidia-gone.so.550.1", "/nowhere");
    host.file(aside + "/libcuda.so.535.1");  // of another driver
    host.link(aside + "/libcuda.so.1", "libcuda.so.550.1");
    host.link("/etc/alternatives/glx--libcuda.so.1", aside + "/libcuda.so.1");
    host.link(std::string(libraries) + "/libcuda.so.1", "/etc/alternatives/glx--libcuda.so.1");
    const auto mounts = driver_edits({.seen = host.root(), .host = ""}, "550.1").common.mounts;
    const std::string in = "/usr/lib64/";
    std::vector<std::pair<std::string, std::string>> found;
    for (const CdiMount& mount : mounts)
        if (mount.container_path.starts_with(in))
            found.emplace_back(mount.host_path, mount.container_path);
    CHECK(mounts.size() == 2 * found.size());
    const std::vector<std::pair<std::string, std::string>> wanted = {
        {aside + "/libcuda.so.550.1", in + "libcuda.so.550.1"},
        {aside + "/libcuda.so.550.1", in + "libcuda.so.1"},
        {aside + "/libnvidia-ml.so.550.1", in + "libnvidia-ml.so.550.1"},
        {aside + "/libnvidia-ml.so.550.1", in + "libnvidia-ml.so.1"},
        {aside + "/libnvidia-nvvm.so.550.1", in + "libnvidia-nvvm.so.550.1"},
        {aside + "/libnvidia-nvvm.so.550.1", in + "libnvidia-nvvm.so.4"}};
    CHECK(found == wanted);
}

TEST_CASE("a driver in the Operator's container is found when it comes, with its device nodes") {
    const Host host;
    host.gpu();
    const auto source = make_nvml_source(driver_places(host.root(), {}));
    CHECK_FALSE(source->read());  // a GPU without a driver is not ready
    host.standin(container + "/usr/lib64");
    host.file(container + "/dev/nvidiactl");
    host.file(container + "/usr/bin/nvidia-smi");
    const auto devices = source->read();
    REQUIRE_MESSAGE(devices, (devices ? "" : devices.error().message));
    const auto edits = source->edits();
    REQUIRE(edits);
    CHECK(edits->node_root == container);
    REQUIRE(edits->common.nodes.size() == 1);
    CHECK(edits->common.nodes[0] ==
          CdiNode{.path = "/dev/nvidiactl", .host_path = container + "/dev/nvidiactl"});
    CHECK(edits->common.mounts.back().host_path == container + "/usr/bin/nvidia-smi");
    CHECK(edits->common.mounts.back().container_path == "/usr/bin/nvidia-smi");
    // Where the host has nodes of its own, they are taken.
    host.file("/dev/nvidiactl");
    CHECK(source->edits()->node_root.empty());
}

TEST_CASE("what is left on the host of a driver that was removed does not hide the container's") {
    const Host host;
    host.file(std::string(libraries) + "/libnvidia-ml.so.1", "no library");
    host.standin(container + "/usr/lib64");
    const auto source = make_nvml_source(driver_places(host.root(), {}));
    const auto devices = source->read();
    REQUIRE_MESSAGE(devices, (devices ? "" : devices.error().message));
    CHECK_FALSE(devices->empty());
}

TEST_CASE("a node without hardware of NVIDIA has no devices, and that is no fault") {
    const Host host;
    host.file("/sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
    host.file("/sys/bus/pci/devices/0000:00:02.0/class", "0x030000\n");
    host.file("/sys/bus/pci/devices/0000:00:03.0/vendor", "0x10de\n");
    host.file("/sys/bus/pci/devices/0000:00:03.0/class", "0x040300\n");  // sound
    const auto source = make_nvml_source(driver_places(host.root(), {}));
    const auto devices = source->read();
    REQUIRE(devices);
    CHECK(devices->empty());
    host.gpu();
    CHECK_FALSE(source->read());
}

TEST_CASE("a MIG instance has the nodes of both of its capabilities") {
    const Host host;
    const std::string instance = "/proc/driver/nvidia/capabilities/gpu3/mig/gi7";
    host.file(instance + "/access", "DeviceFileMinor: 66\nDeviceFileMode: 292\n");
    host.file(instance + "/ci0/access", "DeviceFileMinor: 67\nDeviceFileMode: 292\n");
    const Device card{.uuid = "GPU-a", .device_nodes = {{.path = "/dev/nvidia3"}}};
    const auto nodes = mig_nodes(card, 7, 0, host.root());
    REQUIRE(nodes.size() == 2);
    CHECK(nodes[0] == DeviceNode{.path = "/dev/nvidia-caps/nvidia-cap66"});
    CHECK(nodes[1].path == "/dev/nvidia-caps/nvidia-cap67");
    CHECK(mig_nodes(card, 8, 0, host.root()).empty());
    host.file("/proc/devices",
              "Character devices:\n  1 mem\n195 nvidia\n508 nvidia-caps\n"
              "509 nvidia-caps-imex-channels\n\nBlock devices:\n  8 sd\n");
    const auto numbered = mig_nodes(card, 7, 0, host.root());
    REQUIRE(numbered.size() == 2);
    CHECK(numbered[1] ==
          DeviceNode{.path = "/dev/nvidia-caps/nvidia-cap67", .major = 508, .minor = 67});
}

TEST_CASE("links of a root do not lead out of it") {
    const Host host;
    host.file("/usr/lib/nvidia/libnvidia-ml.so.1", "inside");
    host.link("/etc/alternatives/nvml", "/usr/lib/nvidia/libnvidia-ml.so.1");
    host.link("/usr/lib64/libnvidia-ml.so.1", "/etc/alternatives/nvml");
    host.link("/usr/lib64/lost.so", "/nowhere");
    host.link("/usr/lib64/up.so", "../../../../../../etc/alternatives/nvml");
    const std::string real = host.root() + "/usr/lib/nvidia/libnvidia-ml.so.1";
    CHECK(in_root(host.root(), "/usr/lib64/libnvidia-ml.so.1") == real);
    CHECK(in_root(host.root(), "/usr/lib64/up.so") == real);
    CHECK(in_root(host.root(), "/usr/lib64/lost.so") == std::nullopt);
    CHECK(in_root(host.root(), "/usr/lib64/none.so") == std::nullopt);
    CHECK(in_root("/nowhere", "/usr") == std::nullopt);
    fs::create_directory_symlink(host.root(), host.root() + "/self");
    CHECK(in_root(host.root() + "/self", "/usr/lib64/up.so") ==
          host.root() + "/self/usr/lib/nvidia/libnvidia-ml.so.1");
    const auto paths = nvml_paths({.seen = host.root()});
    CHECK(paths.front() == real);
}
