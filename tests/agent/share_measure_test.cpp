#include "agent/share/share_measure.hpp"

#include "base/atomic_file.hpp"
#include "base/clock.hpp"
#include "preload/abi.h"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstring>
#include <string>

using namespace drawbridge::agent;

namespace {

constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t space = 0xF0000001;
constexpr const char* uuid = "5d000000-0000-0000-0000-000000000001";
const Process inside{4711, 7, space, 50, false};
const Process past{4712, 8, space, 60, false};

const ShareLimits eight_gib{.claim_uid = "u",
                            .boot_id = uuid,
                            .device_uuid = std::string("GPU-") + uuid,
                            .amounts = {std::int64_t{8} << 30, 0, 1},
                            .physical_bytes = std::int64_t{80} << 30};

/// A share on disk whose first slot a process with 100 MiB has, and the node around it.
class Node {
public:
    Node() : folders(files, folder_.path()) {
        REQUIRE(folders.create("s", eight_gib));
        drawbridge_slot slot{};
        slot.state = DRAWBRIDGE_SLOT_LIVE;
        slot.pid = inside.inner_pid;
        slot.start_time = inside.start_time;
        slot.pid_namespace = space;
        put(DRAWBRIDGE_LEDGER_FILE, slot_offset(0), slot);
        put(DRAWBRIDGE_LEDGER_FILE, used_offset(0), std::uint64_t{100 * mib});
        put(DRAWBRIDGE_LEDGER_FILE, 16, std::uint32_t{1});
    }

    template <class Value>
    void put(const char* file, std::size_t at, const Value& value) {
        const std::string bytes(reinterpret_cast<const char*>(&value), sizeof value);
        REQUIRE(files.patch(folders.path("s", file), at, bytes));
    }
    [[nodiscard]] drawbridge_limits limits(const char* share = "s") {
        const auto page = files.read(folders.path(share, "limits"), DRAWBRIDGE_LIMITS_SIZE);
        drawbridge_limits read{};
        std::memcpy(&read, page->data(), sizeof read);
        return read;
    }
    [[nodiscard]] std::uint32_t overhead() { return limits().overhead_mib[0]; }
    Suspects look() {
        return measure.measure(folders.list().value(), [this] { return processes; });
    }

private:
    drawbridge::test::Folder folder_;

public:
    DiskFiles files;
    ShareFolders folders;
    drawbridge::base::ManualClock clock;
    ShareBook book{folders, clock};
    std::int64_t allocated = std::int64_t{8} << 30;
    ProcessTable table{.own_namespace = space, .processes = {inside, past}};
    std::vector<DeviceProcess> processes = {{std::string("GPU-") + uuid, inside.pid, 618 * mib}};
    std::string mounts =
        "1 2 8:1 /k/pods/p-1/etc-hosts /etc/hosts rw - ext4 x rw\n"
        "1 2 8:1 /x /run/drawbridge/shares/s rw - ext4 x rw\n";
    ShareMeasure measure{parts()};

    [[nodiscard]] MeasureParts parts() {
        return {files,
                folders,
                book,
                [this](std::span<const std::uint32_t>) { return table; },
                [this](std::uint32_t) { return mounts; },
                [this](const std::string&) { return allocated; },
                clock};
    }
};

/// A look finds the overhead of 518 MiB beside the 100 MiB that are charged, each counted once.
void check_measured(Node& node) {
    CHECK(node.look().empty());
    CHECK(node.overhead() == 518);
    const auto activity = node.book.look("s", std::int64_t{80} << 30);
    REQUIRE(activity);
    CHECK(activity->use.used_bytes == std::int64_t{618 * mib});
    CHECK(activity->overhead_bytes == std::int64_t{518 * mib});
}

}  // namespace

TEST_CASE("a measured overhead is written for its slot and counts as used") {
    Node node;
    check_measured(node);
}

TEST_CASE("limits that were written anew get their overheads back") {
    Node node;
    CHECK(node.look().empty());
    node.put(DRAWBRIDGE_LIMITS_FILE, offsetof(drawbridge_limits, overhead_mib), std::uint32_t{0});
    CHECK(node.look().empty());
    CHECK(node.overhead() == 518);
}

TEST_CASE("what a process has assumed for its context is not counted twice") {
    Node node;
    node.put(DRAWBRIDGE_LEDGER_FILE, used_offset(0), std::uint64_t{600 * mib});
    node.put(DRAWBRIDGE_LEDGER_FILE, slot_offset(0) + offsetof(drawbridge_slot, provisional),
             std::uint64_t{500 * mib});
    check_measured(node);
}

TEST_CASE("a process with two shares of a GPU is charged once for what neither counts") {
    Node node;
    REQUIRE(node.folders.create("t", eight_gib));
    const auto ledger =
        node.files.read(node.folders.path("s", DRAWBRIDGE_LEDGER_FILE), DRAWBRIDGE_LEDGER_SIZE);
    REQUIRE(node.files.patch(node.folders.path("t", DRAWBRIDGE_LEDGER_FILE), 0, *ledger));
    node.look();
    CHECK(node.limits("s").overhead_mib[0] == 418);
    CHECK(node.limits("t").overhead_mib[0] == 0);
}

TEST_CASE("the size of a context is learnt from who has one, and told to every share of the GPU") {
    Node node;
    REQUIRE(node.folders.create("t", eight_gib));
    CHECK(node.look().empty());
    CHECK(node.limits().context_bytes == 0);  // it may still be setting up
    CHECK(node.look().empty());
    CHECK(node.limits().context_bytes == 518 * mib);
    CHECK(node.limits("t").context_bytes == 518 * mib);
    SUBCASE("other limits leave it there") {
        ShareLimits less = eight_gib;
        less.amounts.memory_bytes /= 2;
        REQUIRE(node.folders.change("t", less));
        CHECK(node.limits("t").memory_bytes == std::uint64_t{4} << 30);
        CHECK(node.limits("t").context_bytes == 518 * mib);
    }
    SUBCASE("one with modules has more") {
        node.processes[0].bytes = 900 * mib;
        CHECK(node.look().empty());
        CHECK(node.look().empty());
        CHECK(node.limits().context_bytes == 518 * mib);
    }
    SUBCASE("an agent that starts anew knows it from what lies there") {
        node.put(DRAWBRIDGE_LIMITS_FILE, offsetof(drawbridge_limits, context_bytes),
                 std::uint64_t{0});
        ShareMeasure next(node.parts());
        CHECK(next.measure({"s", "t"}, [] { return std::vector<DeviceProcess>(); }).empty());
        CHECK(node.limits().context_bytes == 518 * mib);
    }
}

TEST_CASE("a share that is asleep is told the size of a context too") {
    Node node;
    REQUIRE(node.folders.create("t", eight_gib));
    const auto look = [&] { return node.measure.measure({"s"}, [&] { return node.processes; }); };
    CHECK(look().empty());
    CHECK(node.limits("t").context_bytes == 0);
    CHECK(look().empty());
    CHECK(node.limits("t").context_bytes == 518 * mib);
}

TEST_CASE("a process beside the library is found in a share that is asleep") {
    Node node;
    node.processes = {{std::string("GPU-") + uuid, past.pid, mib}};
    const auto look = [&] { return node.measure.measure({}, [&] { return node.processes; }); };
    CHECK(look().empty());
    CHECK(look() == Suspects{{"s", {.strangers = 1, .pod_uid = "p-1"}}});
    SUBCASE("and one that has just taken its slot is none") {
        node.processes = {{std::string("GPU-") + uuid, inside.pid, mib}};
        CHECK(look().empty());
        CHECK(look().empty());
    }
}

TEST_CASE("GPU time adds up over processes and looks, and a driver that is quiet takes none back") {
    using std::chrono::seconds;
    Node node;
    const auto look_at = [&] { return *node.book.look("s", std::int64_t{80} << 30); };
    CHECK(node.look().empty());
    CHECK_FALSE(look_at().gpu);  // it does not tell
    node.processes[0].time = GpuTime{.permille = 400, .ns = 400'000'000};
    CHECK(node.look().empty());
    CHECK(node.look().empty());
    REQUIRE(look_at().gpu);
    CHECK(look_at().gpu->permille == 400);
    CHECK(look_at().gpu_ns == 800'000'000);
    CHECK(node.limits().util_permille[0] == 400);
    node.processes[0].time = GpuTime();
    CHECK(node.look().empty());
    CHECK(look_at().gpu->permille == 400);  // it may have had nothing new
    CHECK(node.limits().util_permille[0] == 400);
    CHECK(node.look().empty());
    CHECK(look_at().gpu->permille == 0);
    CHECK(node.limits().util_permille[0] == 0);
    node.processes.clear();
    CHECK(node.look().empty());
    node.clock.advance(seconds(6));
    CHECK_FALSE(look_at().gpu);
    CHECK(look_at().gpu_ns == 800'000'000);
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
    CHECK(node.look() == Suspects{{"s", {.strangers = 1, .pod_uid = "p-1"}}});
    CHECK(node.book.look("s", 1 << 30)->suspect.strangers == 1);
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
    CHECK(node.book.look("s", 1 << 30)->suspect.strangers == 0);
}

TEST_CASE("a share whose processes hold more than it allows is told after a while") {
    using std::chrono::seconds;
    Node node;
    constexpr std::uint64_t margin = (8 << 10) / 20 + 256;  // MiB
    node.processes[0].bytes = ((8 << 10) + margin + 1) * mib;
    SUBCASE("one that counts in its ledger") {}
    SUBCASE("together with one that does not") {
        node.processes[0].bytes -= 100 * mib;
        node.processes.push_back({node.processes[0].device_uuid, past.pid, 100 * mib});
    }
    CHECK_FALSE(node.look()["s"].overrun_bytes);
    node.clock.advance(seconds(9));
    CHECK_FALSE(node.look()["s"].overrun_bytes);
    node.clock.advance(seconds(1));
    const Suspects found = node.look();
    REQUIRE(found.contains("s"));
    CHECK(found.at("s").overrun_bytes == static_cast<std::int64_t>((margin + 1) * mib));
    CHECK(found.at("s").pod_uid == "p-1");
    CHECK(node.book.suspects() == found);
    node.processes[0].bytes -= 2 * mib;
    CHECK_FALSE(node.look()["s"].overrun_bytes);
    node.processes[0].bytes += 2 * mib;
    CHECK_FALSE(node.look()["s"].overrun_bytes);  // the time begins anew
}

TEST_CASE("who holds what was allocated before an administrator allowed less is not over") {
    Node node;
    node.allocated = std::int64_t{20} << 30;
    node.processes[0].bytes = (20 << 10) * mib;
    CHECK(node.look().empty());
    node.clock.advance(std::chrono::seconds(20));
    CHECK(node.look().empty());
}
