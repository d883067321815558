#include "agent/prepare/prepare_flow.hpp"

#include "agent/cdi/cdi_spec.hpp"
#include "agent/claim/record_store.hpp"
#include "tests/agent/faulty_files.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;
using drawbridge::base::fail;
using drawbridge::base::ManualClock;
using drawbridge::base::Result;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr std::string_view uid = "6a2f41a3-c54c-4c45-a0d6-000000000001";
const std::string record_path = "/claims/" + std::string(uid) + ".json";
const std::string cdi_path = "/cdi/" + cdi_file_name(uid);

/// Notes each write that waits for the disk.
class WatchedFiles final : public Files {
public:
    Result<void> write(const std::string& path, std::string_view text, WriteHow how,
                       mode_t mode) override {
        if (how != WriteHow::atomic) waited_for.push_back(path);
        return files.write(path, text, how, mode);
    }
    Result<std::unique_ptr<Staged>> stage(const std::string& path, std::string_view text,
                                          mode_t mode) override {
        waited_for.push_back(path);
        if (const auto meanwhile = std::exchange(while_waiting, {})) meanwhile();
        return files.stage(path, text, mode);
    }
    Result<void> patch(const std::string& path, std::size_t at, std::string_view bytes) override {
        return files.patch(path, at, bytes);
    }
    Result<std::string> read(const std::string& path, std::size_t most) override {
        if (!path.starts_with("/claims/")) ++reads;
        return files.read(path, most);
    }
    std::optional<FileStamp> stamp(const std::string& path) override { return files.stamp(path); }
    std::unique_ptr<FolderWatch> watch(const std::string& folder) override {
        return files.watch(folder);
    }
    Result<void> remove(const std::string& path) override { return files.remove(path); }
    Result<std::vector<std::string>> list(const std::string& path) override {
        return files.list(path);
    }

    FaultyFiles files;
    std::vector<std::string> waited_for;
    int reads = 0;                        ///< of what is no record
    std::function<void()> while_waiting;  ///< what others do once
};

class Node {
public:
    explicit Node(StepHook hook = {}) {
        auto made = Inventory::make({{.uuid = "GPU-a", .memory_bytes = 8 * gib}}, {}, {});
        REQUIRE(made);
        inventory_ = *made;
        flow = std::make_unique<PrepareFlow>(
            files, clock, FlowPaths{"/claims", "/shares", "/lib", "/cdi", folder_ / "lock"},
            std::move(hook));
        show({});
    }

    /// The device has these nodes from now on.
    void show_nodes(const std::vector<DeviceNode>& nodes) {
        auto made = Inventory::make(
            {{.uuid = "GPU-a", .memory_bytes = 8 * gib, .device_nodes = nodes}}, {}, {});
        REQUIRE(made);
        inventory_ = *made;
        show({});
    }

    void show(const DriverEdits& driver) {
        flow->set_view({.pool = "node",
                        .boot_id = "00000000-0000-4000-8000-000000000001",
                        .inventory = inventory_,
                        .container = {.shares_folder = "/shares", .driver = driver},
                        .rules = rules_});
    }

    /// There are rules, which limit nothing.
    void rule() {
        rules_ = ShareRules();
        show({});
    }

    Result<std::vector<PreparedShare>> prepare(std::string_view claim = uid,
                                               std::int64_t memory = gib) {
        const ClaimFacts facts{.claim = {"ns", "name", std::string(claim)},
                               .allocated = true,
                               .consumers = {{"pod", "p"}},
                               .devices = {{.request = "gpu",
                                            .pool = "node",
                                            .device = inventory_.offers().front().name,
                                            .share_id = "s",
                                            .consumed = Amounts{memory, 0, 1}}}};
        return flow->prepare(facts.claim, {facts, flow->now_asking()});
    }
    /// As the API server's absence leaves it.
    Result<std::vector<PreparedShare>> prepare_alone() {
        return flow->prepare({"ns", "name", std::string(uid)},
                             {fail(ErrorKind::unavailable, "away"), flow->now_asking()});
    }

    WatchedFiles files;
    ManualClock clock{ManualClock::Wall(std::chrono::seconds(1'700'000'000))};
    std::unique_ptr<PrepareFlow> flow;

private:
    Inventory inventory_;
    std::optional<ShareRules> rules_;
    drawbridge::test::Folder folder_;
};

}  // namespace

TEST_CASE("a prepare waits for the disk once, for the record") {
    Node node;
    REQUIRE(node.prepare());
    CHECK(node.files.waited_for == std::vector<std::string>{record_path});
    REQUIRE(node.prepare());
    CHECK(node.files.waited_for.size() == 1);
}

TEST_CASE("while a claim waits for the disk another one is prepared, and counts") {
    constexpr std::string_view other = "6a2f41a3-c54c-4c45-a0d6-000000000002";
    Node node;
    bool prepared = false;
    std::int64_t wanted = 0;
    SUBCASE("both fit") {
        wanted = 4 * gib;
    }
    SUBCASE("the one that waited does not fit any more") {
        wanted = 5 * gib;
    }
    node.files.while_waiting = [&] { prepared = node.prepare(other, 4 * gib).has_value(); };
    const auto result = node.prepare(uid, wanted);
    CHECK(prepared);
    CHECK(result.has_value() == (wanted == 4 * gib));
    CHECK(node.files.files.all().contains(record_path) == result.has_value());
    if (!result) CHECK(result.error().kind == ErrorKind::conflict);
}

TEST_CASE("a build of the library that comes while a claim waits for the disk is the one it gets") {
    Node node;
    node.files.while_waiting = [&] { REQUIRE(node.flow->offer_library({.library = "a build"})); };
    REQUIRE(node.prepare());
    const auto record = node.flow->record(uid);
    REQUIRE(record);
    REQUIRE(*record);
    CHECK_FALSE((**record).library.empty());
    CHECK(node.files.files.all().at(cdi_path).find((**record).library) != std::string::npos);
}

TEST_CASE("the record names the CDI file before that is there") {
    std::vector<std::string> steps;
    bool named = false;
    Node* seen = nullptr;
    Node node([&](std::string_view step) {
        steps.emplace_back(step);
        if (step != "cdi") return;
        const auto record = seen->flow->record(uid);
        named = record && *record && !(**record).cdi_digest.empty() &&
                !seen->files.files.all().contains(cdi_path);
    });
    seen = &node;
    REQUIRE(node.prepare());
    CHECK(named);
    CHECK(steps == std::vector<std::string>{"begin", "library", "share", "cdi", "answer"});
}

TEST_CASE("without the API server only a claim whose CDI file is there is answered") {
    Node node;
    REQUIRE(node.prepare());
    CHECK(node.prepare_alone());
    const std::string whole = node.files.files.all().at(cdi_path);
    node.files.files.put(cdi_path, whole.substr(0, whole.size() / 2));
    CHECK_FALSE(node.prepare_alone());
    node.files.files.drop(cdi_path);
    CHECK_FALSE(node.prepare_alone());
    CHECK(node.flow->restore_cdi_files() == 1);
    CHECK(node.files.files.all().at(cdi_path) == whole);
    CHECK(node.prepare_alone());
    // The record named that file already.
    CHECK(node.files.waited_for.size() == 1);
}

TEST_CASE("a CDI file that is made again as another one is named first") {
    Node node;
    REQUIRE(node.prepare());
    const std::string before = node.files.files.all().at(cdi_path);
    DriverEdits moved;
    moved.common.env = {"DRIVER=moved"};
    node.show(moved);
    REQUIRE(node.prepare());
    CHECK(node.files.files.all().at(cdi_path) == before);  // its containers have that one
    node.files.files.drop(cdi_path);
    node.files.files.crash_after = 1;
    node.files.files.crash_before = true;
    CHECK_THROWS_AS(static_cast<void>(node.prepare()), Crash);
    node.files.files.crash_after = -1;
    // What was there before is not the one that is named now.
    node.files.files.put(cdi_path, before);
    CHECK_FALSE(node.prepare_alone());
    REQUIRE(node.prepare());
    CHECK(node.files.files.all().at(cdi_path).find("DRIVER=moved") != std::string::npos);
    CHECK(node.prepare_alone());
}

TEST_CASE("a CDI file that names what are another card's nodes now is made again") {
    Node node;
    const auto text = [&] { return node.files.files.all().at(cdi_path); };
    node.show_nodes({{.path = "/dev/nvidia1"}});
    REQUIRE(node.prepare());
    CHECK(node.flow->restore_cdi_files() == 0);
    // The driver was loaded anew, without the card before this one.
    node.show_nodes({{.path = "/dev/nvidia0"}});
    CHECK(node.flow->restore_cdi_files() == 1);
    CHECK(text().find("/dev/nvidia0") != std::string::npos);
    CHECK(text().find("/dev/nvidia1") == std::string::npos);
    CHECK(node.prepare_alone());
    node.show_nodes({{.path = "/dev/nvidia0"}, {.path = "/dev/cap", .major = 508, .minor = 3}});
    CHECK(node.flow->restore_cdi_files() == 1);
    node.show_nodes({{.path = "/dev/nvidia0"}, {.path = "/dev/cap", .major = 507, .minor = 3}});
    CHECK(node.flow->restore_cdi_files() == 1);
    CHECK(text().find("507") != std::string::npos);
    CHECK(node.flow->restore_cdi_files() == 0);
    node.show_nodes({});  // not known
    CHECK(node.flow->restore_cdi_files() == 0);
}

TEST_CASE("files that nobody has touched are not read again") {
    Node node;
    node.rule();
    REQUIRE(node.prepare());
    const std::string limits = "/shares/" + share_name(std::string(uid), 0) + "/limits";
    const auto look = [&] {
        node.files.reads = 0;
        const auto changed = node.flow->hold_to_limits();
        return changed.size() + node.flow->restore_cdi_files();
    };
    CHECK(look() == 0);
    CHECK(node.files.reads == 2);
    CHECK(look() == 0);
    CHECK(node.files.reads == 0);

    std::string page = node.files.files.all().at(limits);
    page.resize(100);
    node.files.files.put(limits, page);
    CHECK(look() == 1);
    node.files.files.put(cdi_path, "{}");
    CHECK(look() == 1);
    static_cast<void>(look());
    CHECK(look() == 0);
    CHECK(node.files.reads == 0);
    // What is written twice within a tick of the file system has one time.
    node.files.files.put(limits, node.files.files.all().at(limits));
    node.files.files.written_at = std::chrono::nanoseconds(node.clock.now().time_since_epoch());
    static_cast<void>(look());
    CHECK(look() == 0);
    CHECK(node.files.reads == 1);
    node.files.files.written_at = {};
    static_cast<void>(look());

    node.files.files.blind = true;
    CHECK(look() == 0);
    CHECK(node.files.reads == 2);
    node.files.files.blind = false;
    static_cast<void>(look());
    node.show_nodes({{.path = "/dev/nvidia0"}});
    CHECK(look() == 1);
}

TEST_CASE("a mark that lies ahead of the clock goes") {
    Node node;
    REQUIRE(node.prepare());
    REQUIRE(node.flow->unprepare(uid));
    CHECK(node.files.files.all().contains(record_path));
    static_cast<void>(node.flow->sweep());
    CHECK(node.files.files.all().contains(record_path));
    node.clock.set_wall(ManualClock::Wall(std::chrono::seconds(1'600'000'000)));
    static_cast<void>(node.flow->sweep());
    CHECK_FALSE(node.files.files.all().contains(record_path));
}
