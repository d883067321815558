// The NVML code itself, on the project's stand-in for the library.

#include "agent/device/fault_tracker.hpp"
#include "agent/source/device_source.hpp"
#include "tests/agent/fault_keys.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace drawbridge::agent;
namespace fs = std::filesystem;

namespace {

/// A driver root that holds the stand-in alone.
class Root {
public:
    Root() {
        fs::create_directories(path() / "usr/lib64");
        fs::create_symlink(fs::absolute(DRAWBRIDGE_STANDIN_NVML),
                           path() / "usr/lib64/libnvidia-ml.so.1");
    }
    [[nodiscard]] const fs::path& path() const { return folder_.path(); }

private:
    drawbridge::test::Folder folder_;
};

// The stand-in reads it when it is first asked.
const bool two_cards = ::setenv("DRAWBRIDGE_STANDIN_DEVICES", "2", 1) == 0;

/// What happens to the cards of the stand-in (tests/preload/standin/nvml_script.hpp).
class Script {
public:
    explicit Script(const Root& root) : path_(root.path() / "script") {
        ::setenv("DRAWBRIDGE_STANDIN_NVML", path_.c_str(), 1);
    }
    ~Script() { ::unsetenv("DRAWBRIDGE_STANDIN_NVML"); }
    Script(const Script&) = delete;
    Script& operator=(const Script&) = delete;
    void set(const std::string& text) const { std::ofstream(path_) << text; }

private:
    fs::path path_;
};

std::vector<Device> look(DeviceSource& source, int times = 1) {
    std::vector<Device> devices;
    for (int i = 0; i < times; ++i) {
        auto read = source.read();
        REQUIRE_MESSAGE(read, (read ? "" : read.error().message));
        devices = *std::move(read);
    }
    return devices;
}

}  // namespace

TEST_CASE("only a driver tells of processes") {
    const Root root;
    CHECK_FALSE(make_file_source("/nowhere")->processes());
    const auto source = make_nvml_source({.seen = root.path()});
    CHECK(source->processes());  // before it is open, too
    look(*source);
    CHECK(source->processes());
}

TEST_CASE("devices are read through NVML, found below the driver's root") {
    const Root root;
    const auto source = make_nvml_source({.seen = root.path()});
    const auto devices = source->read();
    REQUIRE_MESSAGE(devices, (devices ? "" : devices.error().message));
    REQUIRE_FALSE(devices->empty());
    for (const Device& device : *devices) {
        CHECK(device.uuid.starts_with("GPU-"));
        CHECK(device.memory_bytes > 0);
    }
    const auto again = source->read();
    REQUIRE(again);
    CHECK(*again == *devices);
}

TEST_CASE("where there is no NVML the reason names what was tried") {
    const auto source = make_nvml_source({.seen = "/nowhere"});
    const auto devices = source->read();
    REQUIRE_FALSE(devices);
    CHECK(devices.error().message.find("/nowhere/usr/lib64/libnvidia-ml.so.1") !=
          std::string::npos);
}

TEST_CASE("libraries are those of the driver's version, under both names, for every linker") {
    const Root root;
    for (const char* name : {"libcuda.so.570.1", "libcuda.so.999.1", "libother.so.570.1.2"})
        fs::copy_file(DRAWBRIDGE_STANDIN_NVML, root.path() / "usr/lib64" / name);
    const DriverEdits edits =
        driver_edits({.seen = root.path(), .host = "/run/nvidia/driver"}, "570.1");
    std::vector<std::string> inside;
    for (const CdiMount& mount : edits.common.mounts) {
        CHECK(mount.host_path == "/run/nvidia/driver/usr/lib64/libcuda.so.570.1");
        inside.push_back(mount.container_path);
    }
    REQUIRE(inside.size() == 4);
    CHECK(inside[0] == "/usr/lib64/libcuda.so.570.1");
    CHECK(inside[1].ends_with("-linux-gnu/libcuda.so.570.1"));  // Debian's linker, on any host
    CHECK(inside[2] == "/usr/lib64/libcuda.so.1");
    CHECK(inside[3].ends_with("-linux-gnu/libcuda.so.1"));
    CHECK(driver_edits({.seen = root.path()}, "").common.mounts.empty());
}

// ------------------------------------------------------------------- NVML and what happens to it

TEST_CASE("what NVML tells of a card is published as it is") {
    REQUIRE(two_cards);
    const Root root;
    const auto source = make_nvml_source({.seen = root.path()});
    const auto devices = look(*source);
    REQUIRE(devices.size() == 2);
    CHECK(devices[1].product_name == "NVIDIA H200");
    CHECK(devices[1].architecture == "Hopper");
    CHECK(devices[1].place.pci_bus_id == "0000:11:00.0");
    CHECK(devices[1].versions.driver == "580.159");
    CHECK(devices[1].versions.cuda_driver == "13.0");
    CHECK(devices[1].versions.compute_capability == "9.0");
    CHECK(devices[1].device_nodes == std::vector<DeviceNode>{{.path = "/dev/nvidia1"}});
    CHECK(devices[0].faults.empty());
}

TEST_CASE("an XID taints the card that it is of, until the card has proved itself") {
    const Root root;
    const Script script(root);
    script.set("xid 0 62\n");  // before anybody listened: nobody is told
    const auto source = make_nvml_source({.seen = root.path()});
    CHECK(look(*source)[0].faults.empty());
    script.set("xid 0 62\nxid 1 48\n");
    const auto hit = look(*source);
    CHECK(hit[0].faults.empty());
    REQUIRE(keys(hit[1].faults) == std::vector<std::string>{"xid"});
    CHECK(hit[1].faults[0].value == "48");
    CHECK(hit[1].faults[0].effect == TaintEffect::no_schedule);
    CHECK_FALSE(look(*source, FaultTracker::proof - 1)[1].faults.empty());
    CHECK(look(*source)[1].faults.empty());
    CHECK(source->xids() == XidCounts{{{hit[1].uuid, 48}, 1}});
}

TEST_CASE("errors of applications are counted and taint nothing") {
    const Root root;
    const Script script(root);
    const auto source = make_nvml_source({.seen = root.path()});
    const std::string uuid = look(*source)[0].uuid;
    script.set("xid 0 13\nxid 0 31\nxid 0 31\nxid 0 43\nxid 0 45\nxid 0 68\nxid 0 109\n");
    CHECK(look(*source)[0].faults.empty());
    CHECK(source->xids().at({uuid, 31}) == 2);
    CHECK(source->xids().size() == 6);
}

TEST_CASE("a lost card is named, the other serves on, and it comes back by itself") {
    const Root root;
    const Script script(root);
    const auto source = make_nvml_source({.seen = root.path()});
    const auto before = look(*source);
    script.set("lost 0\n");
    const auto lost = look(*source);
    REQUIRE(lost.size() == 2);
    CHECK(lost[0].uuid == before[0].uuid);
    CHECK(is_lost(lost[0]));
    CHECK(lost[0].faults[0].effect == TaintEffect::no_execute);
    CHECK(lost[1] == before[1]);
    script.set("");
    CHECK(is_lost(look(*source, FaultTracker::proof - 1)[0]));
    CHECK(look(*source) == before);
}

TEST_CASE("rows that wait for a remap ask for a reset") {
    const Root root;
    const Script script(root);
    script.set("remap 1\n");
    const auto source = make_nvml_source({.seen = root.path()});
    CHECK(keys(look(*source)[1].faults) == std::vector<std::string>{"reset-required"});
    script.set("");
    CHECK(look(*source, FaultTracker::proof)[1].faults.empty());
}

TEST_CASE("a card that reports no errors is offered, and said to be unmonitored") {
    const Root root;
    const Script script(root);
    script.set("deaf 0\n");
    const auto source = make_nvml_source({.seen = root.path()});
    const auto devices = look(*source);
    REQUIRE(keys(devices[0].faults) == std::vector<std::string>{"unmonitored"});
    CHECK(devices[0].faults[0].effect == TaintEffect::none);
    CHECK(devices[1].faults.empty());
}

TEST_CASE("MIG instances stand in the place of their card") {
    const Root root;
    const Script script(root);
    script.set("mig 0\ninstance 0 1 0 18000 MIG-a\ninstance 0 5 0 9000 MIG-b\n");
    const auto source = make_nvml_source({.seen = root.path()});
    const auto devices = look(*source);
    REQUIRE(devices.size() == 3);
    CHECK(devices[0].uuid == "MIG-a");
    CHECK(devices[0].type == DeviceType::mig);
    CHECK(devices[0].memory_bytes == std::int64_t{18000} << 20);
    CHECK(devices[0].product_name == "NVIDIA H200 MIG");
    REQUIRE(devices[1].mig);
    CHECK(devices[1].mig->gpu_instance == 5);
    CHECK(devices[1].mig->parent_uuid.starts_with("GPU-"));
    CHECK(devices[0].device_nodes.front().path == "/dev/nvidia0");
    CHECK(devices[2].type == DeviceType::gpu);
    // An error of the card is one of all its instances.
    script.set("mig 0\ninstance 0 1 0 18000 MIG-a\ninstance 0 5 0 9000 MIG-b\nxid 0 62\n");
    const auto hit = look(*source);
    CHECK(keys(hit[0].faults) == std::vector<std::string>{"xid"});
    CHECK(keys(hit[1].faults) == std::vector<std::string>{"xid"});
    CHECK(hit[2].faults.empty());
}

TEST_CASE("instances of a lost card are lost, and the card is not offered in their place") {
    const Root root;
    const Script script(root);
    const std::string mig = "mig 0\ninstance 0 1 0 18000 MIG-a\n";
    script.set(mig);
    const auto source = make_nvml_source({.seen = root.path()});
    REQUIRE(look(*source).size() == 2);
    script.set(mig + "lost 0\n");
    const auto lost = look(*source);
    REQUIRE(lost.size() == 2);
    CHECK(lost[0].uuid == "MIG-a");
    CHECK(is_lost(lost[0]));
}

TEST_CASE("a MIG instance that does not answer is not taken for one that is gone") {
    const Root root;
    const Script script(root);
    const std::string one = "mig 0\ninstance 0 1 0 18000 MIG-a\n";
    script.set(one + "instance 0 5 0 9000 MIG-b\n");
    const auto source = make_nvml_source({.seen = root.path()});
    REQUIRE(look(*source)[1].uuid == "MIG-b");
    // NVML refuses a UUID for which its caller has no room.
    script.set(one + "instance 0 5 0 9000 MIG-" + std::string(200, 'b') + "\n");
    const auto silent = look(*source);
    REQUIRE(silent.size() == 3);
    CHECK(silent[1].uuid == "MIG-b");
    CHECK(keys(silent[1].faults) == std::vector<std::string>{"driver-failed"});
    script.set(one + "instance 0 5 0 9000 MIG-b\n");
    CHECK(look(*source, FaultTracker::proof)[1].faults.empty());
    script.set(one);  // an administrator has removed it
    CHECK(look(*source).size() == 2);
}

TEST_CASE("a card in MIG mode without instances is not offered") {
    const Root root;
    const Script script(root);
    script.set("mig 0\n");
    const auto source = make_nvml_source({.seen = root.path()});
    const auto devices = look(*source);
    REQUIRE(devices.size() == 1);
    CHECK(devices[0].place.index == 1);
    script.set("mig 0\ninstance 0 1 0 18000 MIG-a\n");
    CHECK(look(*source).size() == 2);
}

/// All that is wrong is that the driver does not answer, which keeps new pods away and ends none.
bool is_without_driver(const Device& device) {
    return keys(device.faults) == std::vector<std::string>{"driver-failed"} &&
           device.faults[0].effect == TaintEffect::no_schedule;
}

TEST_CASE("a driver that does not start is an error as long as no device was ever seen") {
    const Root root;
    const Script script(root);
    script.set("down\n");
    const auto source = make_nvml_source({.seen = root.path()});
    REQUIRE_FALSE(source->read());
    CHECK(source->read().error().message.find("code 9") != std::string::npos);
    script.set("");
    CHECK(look(*source).size() == 2);
}

TEST_CASE("a driver's library that goes away leaves the devices with a fault") {
    const Root root;
    const Script script(root);
    const auto source = make_nvml_source({.seen = root.path()});
    const auto before = look(*source);
    const auto edits = source->edits();
    REQUIRE(edits);
    const fs::path library = root.path() / "usr/lib64/libnvidia-ml.so.1";
    fs::rename(library, root.path() / "away");
    CHECK(look(*source) == before);  // it is open
    script.set("down\n");
    CHECK(is_without_driver(look(*source)[0]));
    script.set("");
    CHECK(is_without_driver(look(*source)[0]));
    CHECK_FALSE(source->edits());  // not those of no driver
    fs::rename(root.path() / "away", library);
    CHECK(look(*source) == before);
    CHECK(*source->edits() == *edits);
}

TEST_CASE("a driver that fails for one card alone taints that card") {
    const Root root;
    const Script script(root);
    const auto source = make_nvml_source({.seen = root.path()});
    const auto before = look(*source);
    script.set("fails 0 999\n");
    const auto failing = look(*source);
    REQUIRE(failing.size() == 2);
    CHECK(is_without_driver(failing[0]));
    CHECK(failing[1] == before[1]);
    script.set("fails 1 16\n");
    CHECK(keys(look(*source)[1].faults) == std::vector<std::string>{"reset-required"});
}

TEST_CASE("a library that is newer than the kernel's part is a driver that fails") {
    const Root root;
    const Script script(root);
    const auto source = make_nvml_source({.seen = root.path()});
    const auto before = look(*source);
    script.set("fails 1 18\n");
    const auto failing = look(*source);
    REQUIRE(failing.size() == 2);
    CHECK(is_without_driver(failing[0]));
    CHECK(is_without_driver(failing[1]));
    script.set("");
    CHECK(look(*source) == before);
}

TEST_CASE("what else is wrong with a GPU outlives the failure of its driver") {
    const Root root;
    const Script script(root);
    const std::string mig = "mig 0\ninstance 0 1 0 18000 MIG-a\ninstance 0 5 0 9000 MIG-b\n";
    script.set(mig);
    const auto source = make_nvml_source({.seen = root.path()});
    static_cast<void>(look(*source));
    script.set(mig + "xid 0 62\n");
    static_cast<void>(look(*source));
    script.set("down\n");
    const auto failing = look(*source);
    REQUIRE(failing.size() == 3);
    for (const Device& instance : {failing[0], failing[1]})
        CHECK(keys(instance.faults) == std::vector<std::string>{"driver-failed", "xid"});
    CHECK(is_without_driver(failing[2]));
    script.set(mig);
    CHECK(keys(look(*source)[1].faults) == std::vector<std::string>{"xid"});
}

TEST_CASE("a driver that is unloaded and loaded again is found again, and listened to") {
    const Root root;
    const Script script(root);
    const auto source = make_nvml_source({.seen = root.path()});
    const auto before = look(*source);
    script.set("down\n");
    const auto failing = look(*source);
    REQUIRE(failing.size() == 2);
    CHECK(is_without_driver(failing[0]));
    CHECK(is_without_driver(failing[1]));
    CHECK(look(*source) == failing);
    script.set("");
    CHECK(look(*source) == before);
    script.set("xid 0 62\n");
    CHECK(keys(look(*source)[0].faults) == std::vector<std::string>{"xid"});
}
