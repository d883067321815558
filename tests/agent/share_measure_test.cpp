#include "agent/share_measure.hpp"

#include "base/atomic_file.hpp"
#include "base/clock.hpp"
#include "preload/abi.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

using namespace drawbridge::agent;

namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t space = 0xF0000001;
constexpr const char* uuid = "5d000000-0000-0000-0000-000000000001";
const Process inside{4711, 7, space, 50, false};
const Process past{4712, 8, space, 60, false};

/// A share on disk whose first slot a process with 100 MiB has, and the node around it.
class Node {
public:
    Node() : folder_(made()), folders(files, folder_) {
        REQUIRE(folders.create("s", {.claim_uid = "u",
                                     .boot_id = uuid,
                                     .device_uuid = std::string("GPU-") + uuid,
                                     .amounts = {std::int64_t{8} << 30, 0, 1},
                                     .physical_bytes = std::int64_t{80} << 30}));
        drawbridge_slot slot{};
        slot.state = DRAWBRIDGE_SLOT_LIVE;
        slot.pid = inside.inner_pid;
        slot.start_time = inside.start_time;
        slot.pid_namespace = space;
        put(DRAWBRIDGE_LEDGER_FILE, slot_offset(0), slot);
        put(DRAWBRIDGE_LEDGER_FILE, used_offset(0), std::uint64_t{100 * mib});
        put(DRAWBRIDGE_LEDGER_FILE, 16, std::uint32_t{1});
    }
    ~Node() { std::filesystem::remove_all(folder_); }
    Node(const Node&) = delete;
    Node& operator=(const Node&) = delete;

    template <class Value>
    void put(const char* file, std::size_t at, const Value& value) {
        const std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
        REQUIRE(files.patch(folders.path("s", file), at, bytes));
    }
    [[nodiscard]] std::uint32_t overhead() {
        const auto page = files.read(folders.path("s", "limits"), DRAWBRIDGE_LIMITS_SIZE);
        std::uint32_t value = 0;
        std::memcpy(&value, page->data() + offsetof(drawbridge_limits, overhead_mib), 4);
        return value;
    }
    std::map<std::string, std::int64_t> look() {
        return measure.measure([this] { return processes; });
    }

private:
    static std::string made() {
        char name[] = "/tmp/db-measure-XXXXXX";
        return ::mkdtemp(name);
    }

    std::string folder_;

public:
    DiskFiles files;
    ShareFolders folders;
    drawbridge::base::ManualClock clock;
    ShareBook book{folders, clock};
    ProcessTable table{.own_namespace = space, .processes = {inside, past}};
    std::vector<DeviceProcess> processes = {{std::string("GPU-") + uuid, inside.pid, 618 * mib}};
    std::string mounts = "1 2 8:1 /x /run/drawbridge/shares/s rw - ext4 x rw\n";
    ShareMeasure measure{
        {files, folders, book, [this] { return table; }, [this](std::uint32_t) { return mounts; }}};
};

}  // namespace

TEST_CASE("a measured overhead is written for its slot and counts as used") {
    Node node;
    CHECK(node.look().empty());
    CHECK(node.overhead() == 518);
    const auto activity = node.book.look("s", std::int64_t{80} << 30);
    REQUIRE(activity);
    CHECK(activity->use.used_bytes == std::int64_t{618 * mib});
    CHECK(activity->overhead_bytes == std::int64_t{518 * mib});
}

TEST_CASE("limits that were written anew get their overheads back") {
    Node node;
    CHECK(node.look().empty());
    node.put(DRAWBRIDGE_LIMITS_FILE, offsetof(drawbridge_limits, overhead_mib), std::uint32_t{0});
    CHECK(node.look().empty());
    CHECK(node.overhead() == 518);
}

TEST_CASE("another GPU's processes are none of a share's") {
    Node node;
    node.processes[0].device_uuid = "GPU-5d000000-0000-0000-0000-000000000002";
    node.processes.push_back({node.processes[0].device_uuid, past.pid, mib});
    CHECK(node.look().empty());
    CHECK(node.look().empty());
    CHECK(node.overhead() == 0);
}

TEST_CASE("a process that is in the container and not in the ledger is told when seen twice") {
    Node node;
    node.processes.push_back({node.processes[0].device_uuid, past.pid, mib});
    CHECK(node.look().empty());
    CHECK(node.look() == std::map<std::string, std::int64_t>{{"s", 1}});
    CHECK(node.book.look("s", 1 << 30)->strangers == 1);
    SUBCASE("it has ended") {
        node.table.processes[1].has_ended = true;
    }
    SUBCASE("it is of no container with a share") {
        node.mounts.clear();
    }
    SUBCASE("the driver shows it no more") {
        node.processes.pop_back();
    }
    CHECK(node.look().empty());
    CHECK(node.book.look("s", 1 << 30)->strangers == 0);
}
