// The NVML code itself, on the project's stand-in for the library.

#include "agent/device_source.hpp"
#include "agent/fault_tracker.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

using namespace drawbridge::agent;
namespace fs = std::filesystem;

namespace {

/// A driver root that holds the stand-in alone.
class Root {
public:
    Root() {
        std::string name = "/tmp/drawbridge-root-XXXXXX";
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        path_ = name;
        fs::create_directories(path_ / "usr/lib64");
        fs::create_symlink(fs::absolute(DRAWBRIDGE_STANDIN_NVML),
                           path_ / "usr/lib64/libnvidia-ml.so.1");
    }
    ~Root() { fs::remove_all(path_); }
    Root(const Root&) = delete;
    Root& operator=(const Root&) = delete;
    [[nodiscard]] const fs::path& path() const { return path_; }

private:
    fs::path path_;
};

std::vector<std::string> keys(const std::vector<Fault>& faults) {
    std::vector<std::string> all;
    for (const Fault& fault : faults)
        all.push_back(fault.key);
    return all;
}

}  // namespace

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

TEST_CASE("libraries are those of the driver's version, at the host's path, under both names") {
    const Root root;
    for (const char* name : {"libcuda.so.570.1", "libcuda.so.999.1", "libother.so.570.1.2"})
        fs::copy_file(DRAWBRIDGE_STANDIN_NVML, root.path() / "usr/lib64" / name);
    const DriverEdits edits =
        driver_edits({.seen = root.path(), .host = "/run/nvidia/driver"}, "570.1");
    REQUIRE(edits.common.mounts.size() == 2);
    CHECK(edits.common.mounts[0].host_path == "/run/nvidia/driver/usr/lib64/libcuda.so.570.1");
    CHECK(edits.common.mounts[0].container_path == "/usr/lib64/libcuda.so.570.1");
    CHECK(edits.common.mounts[1].host_path == edits.common.mounts[0].host_path);
    CHECK(edits.common.mounts[1].container_path == "/usr/lib64/libcuda.so.1");
    CHECK(driver_edits({.seen = root.path()}, "").common.mounts.empty());
}

TEST_CASE("a fault rises at once and falls after a row of good looks") {
    FaultTracker tracker;
    CHECK(tracker.look("a", {}).empty());
    CHECK(keys(tracker.look("a", {.xids = {62}})) == std::vector<std::string>{"xid"});
    for (int i = 1; i < FaultTracker::proof; ++i)
        CHECK_FALSE(tracker.look("a", {}).empty());
    CHECK(tracker.look("a", {}).empty());
}

TEST_CASE("a bad look in between starts the row anew") {
    FaultTracker tracker;
    static_cast<void>(tracker.look("a", {.answers = false}));
    for (int i = 1; i < FaultTracker::proof; ++i)
        static_cast<void>(tracker.look("a", {}));
    static_cast<void>(tracker.look("a", {.answers = false}));
    CHECK(keys(tracker.look("a", {})) == std::vector<std::string>{"gpu-lost"});
}

TEST_CASE("what a program did wrong taints nothing, and is counted") {
    FaultTracker tracker;
    CHECK(tracker.look("a", {.xids = {13, 31, 43, 45, 68, 109}}).empty());
    CHECK(tracker.xids().at({"a", 31}) == 1);
}

TEST_CASE("faults of different kinds stand beside each other, and one GPU's are its own") {
    FaultTracker tracker;
    const auto faults = tracker.look("a", {.reset_required = true, .xids = {79, 62}});
    CHECK(keys(faults) == std::vector<std::string>{"gpu-lost", "reset-required", "xid"});
    CHECK(faults[0].effect == TaintEffect::no_execute);
    CHECK(tracker.look("b", {}).empty());
    // A lesser event later takes nothing back.
    CHECK(keys(tracker.look("a", {.xids = {31}})).size() == 3);
}

TEST_CASE("a GPU that reports nothing is said to be unmonitored, which keeps nobody away") {
    FaultTracker tracker;
    const auto faults = tracker.look("a", {.monitored = false});
    REQUIRE(keys(faults) == std::vector<std::string>{"unmonitored"});
    CHECK(faults[0].effect == TaintEffect::none);
}
