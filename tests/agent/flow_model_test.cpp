// Random lives of a node against a model: prepare, repeat, unprepare, crash, reboot, a full disk,
// an API server that is away, a scheduler that gives a device away twice, agents of several builds
// one after another and side by side, an administrator who lowers limits and raises them again.

#include "agent/cdi/cdi_spec.hpp"
#include "agent/prepare/prepare_flow.hpp"
#include "agent/share/share_pages.hpp"
#include "preload/abi.h"
#include "tests/agent/faulty_files.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;
using drawbridge::base::fail;
using drawbridge::base::ManualClock;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr char marker = '\x5a';

/// What the kubelet knows of a claim.
struct Known {
    ClaimFacts facts;
    bool prepared = false;  ///< it was told so, in this boot, and has not ended it
    std::vector<PreparedShare> answer;
    std::string cdi;  ///< text of the CDI file with which its containers were made
};

class Life {
public:
    explicit Life(unsigned seed) : random_(seed) {
        auto made = Inventory::make({{.uuid = "GPU-a", .memory_bytes = 8 * gib},
                                     {.uuid = "GPU-b", .memory_bytes = 8 * gib}},
                                    {.split_count = 3}, {});
        REQUIRE(made);
        inventory_ = *made;
        restart();
    }

    void step() {
        clock_.advance(std::chrono::microseconds(1));
        switch (pick(15)) {
            case 0:
            case 1:
                return allocate();
            case 2:
            case 3:
            case 4:
                return prepare();
            case 5:
            case 6:
                return unprepare();
            case 7:
                return late_prepare();
            case 8:
                if (pick(3) == 0) return reboot();
                return restart();
            case 9:
                files.full = pick(2) == 0;
                return;
            case 10:
                return lose_cdi_file();
            case 11:
                return surge();
            case 12:
                return rule();
            case 13:
                return damage_limits();
            default:
                clock_.advance(std::chrono::seconds(pick(400)));
                return look_after_files();
        }
    }

    /// All that must hold between any two steps, seen from the files and the kubelet alone.
    void check() {
        std::map<std::string, Amounts> sums;
        const auto all = files.all();
        const auto stored = flow_->stored();
        REQUIRE(stored);
        CHECK(stored->unreadable.empty());
        for (const auto& [uid, known] : claims_) {
            if (!known.prepared) continue;
            for (std::size_t i = 0; i < known.facts.devices.size(); ++i) {
                const AllocatedDevice& device = known.facts.devices[i];
                sums[device.device] += *device.consumed;
                const std::string folder = "/shares/" + share_name(uid, i);
                REQUIRE(all.contains(folder + "/limits"));
                REQUIRE(all.contains(folder + "/ledger"));
                const auto limits = read_limits(all.at(folder + "/limits"));
                REQUIRE(limits);
                check_limits(*limits, *device.consumed);
                CHECK(limits->boot_id == boot_id());
                // A container has written there.
                CHECK(all.at(folder + "/ledger").back() == marker);
            }
            check_library(known, all);
        }
        for (const auto& [device, sum] : sums) {
            CHECK(sum.memory_bytes <= 8 * gib);
            CHECK(sum.cores <= 100);
            CHECK(sum.slots <= 3);
        }
        for (const std::string& uid : ended_) {
            for (const auto& [path, text] : all) {
                if (path.starts_with("/claims/") || path.starts_with("/lib/")) continue;
                CHECK_MESSAGE(path.find(uid) == std::string::npos, path);
            }
        }
    }

    void end_all() {
        files.full = false;
        for (auto& [uid, known] : claims_)
            CHECK(flow_->unprepare(uid));
        // Ended before a power cut that took the mark of it; the API server knows none of them.
        const auto stored = flow_->stored();
        REQUIRE(stored);
        for (const ClaimRecord& record : stored->records)
            CHECK(flow_->unprepare(record.claim.uid));
        clock_.advance(std::chrono::hours(1));
        static_cast<void>(flow_->sweep());
        // What is left is the build that the next claim would get, whole, and what there is of the
        // one with the front.
        CHECK(flow_->offer_library(bytes_of(build_)));
        std::map<std::string, std::size_t> left;
        for (const auto& [path, text] : files.all()) {
            CHECK(path.starts_with("/lib/"));
            ++left[path.substr(0, path.rfind('/'))];
        }
        CHECK(left.size() <= 2);
        CHECK(std::ranges::any_of(left, [](const auto& build) { return build.second == 2; }));
    }

    FaultyFiles files;

private:
    std::size_t pick(std::size_t below) { return random_() % below; }
    [[nodiscard]] std::string boot_id() const {
        return fmt::format("00000000-0000-4000-8000-{:012x}", boot_);
    }

    /// What a build of the preload library is made of.
    static LibraryBytes bytes_of(std::size_t build) {
        return {.library = fmt::format("library {}", build),
                .front = fmt::format("front {}", build)};
    }

    std::unique_ptr<PrepareFlow> agent(std::size_t build) {
        auto flow = std::make_unique<PrepareFlow>(
            files, clock_, FlowPaths{"/claims", "/shares", "/lib", "/cdi", folder_ / "lock"});
        files.crash_after = pick(4) == 0 ? static_cast<int>(pick(2)) : -1;
        try {
            static_cast<void>(flow->offer_library(bytes_of(build)));  // fails on a full disk
        } catch (const Crash&) {
            return agent(build);
        }
        files.crash_after = -1;
        show_view(*flow);
        return flow;
    }

    void show_view(PrepareFlow& flow) const {
        flow.set_view(
            {.pool = "node",
             .boot_id = boot_id(),
             .inventory = inventory_,
             .container = {.shares_folder = "/shares",
                           .driver = {.common = {.mounts = {{"/d/libcuda.so.1",
                                                             "/usr/lib64/libcuda.so.1"}}}},
                           .replace_libcuda = replace_libcuda_},
             .rules = ShareRules{.limits = {{.name_space = "ns", .memory_bytes = rule_}}}});
    }

    void restart() {
        build_ = pick(3);
        other_.reset();
        flow_ = agent(build_);
    }

    /// A rolling update: the next agent is there before the last one goes.
    void surge() {
        if (other_) return restart();
        build_ = pick(3);
        other_ = std::exchange(flow_, agent(build_));
    }

    /// One of the agents that run.
    PrepareFlow& some() { return other_ && pick(2) == 0 ? *other_ : *flow_; }

    /// The containers that were made find the library that they were made with, whichever agents
    /// have come since; that is what their CDI file says, too, while it is there.
    void check_library(const Known& known, const std::map<std::string, std::string>& all) const {
        const auto found = all.find("/cdi/" + cdi_file_name(known.facts.claim.uid));
        if (found != all.end()) CHECK(found->second == known.cdi);
        const std::size_t at = known.cdi.find("/lib/");
        REQUIRE(at != std::string::npos);
        const std::string folder = known.cdi.substr(at, known.cdi.find('/', at + 5) - at);
        REQUIRE(all.contains(folder + "/libdrawbridge.so"));
        REQUIRE(all.contains(folder + "/ld.so.preload"));
        const std::string front = folder + "/libdrawbridge-libcuda.so";
        CHECK(all.contains(front) == (known.cdi.find(front) != std::string::npos));
    }

    /// Never more than was allocated; and what the rule says, once it was made to hold.
    void check_limits(const ReadLimits& found, const Amounts& given) const {
        if (found.generation % 2 != 0) {
            CHECK_FALSE(held_);
            return;
        }
        CHECK(found.memory_bytes <= given.memory_bytes);
        if (held_) CHECK(found.memory_bytes == std::min(given.memory_bytes, rule_));
    }

    void rule() {
        rule_ = gib * static_cast<std::int64_t>(1 + pick(5));
        replace_libcuda_ = pick(2) == 0;
        held_ = false;
        show_view(*flow_);
        if (other_) show_view(*other_);
        hold_to_limits();
    }

    void hold_to_limits() {
        const auto result = survive([&] { return some().hold_to_limits(); });
        held_ = result && !files.full;
    }

    void look_after_files() {
        hold_to_limits();
        survive([&] {
            static_cast<void>(some().restore_cdi_files());
            return some().sweep();
        });
    }

    void reboot() {
        ++boot_;
        files.cut_power([this](std::size_t below) { return pick(below); });
        for (auto& [uid, known] : claims_)
            known.prepared = false;
        ended_.clear();
        restart();
    }

    /// Sometimes more than there is: the scheduler errs too.
    void allocate() {
        const std::string uid = fmt::format("{:08x}-0000-4000-8000-000000000000", ++count_);
        Known known;
        known.facts.claim = {"ns", "claim-" + uid, uid};
        known.facts.allocated = true;
        known.facts.consumers = {{"pod", "p"}};
        for (std::size_t i = 0; i <= pick(2); ++i) {
            known.facts.devices.push_back(
                {.request = "gpu",
                 .pool = "node",
                 .device = inventory_.offers()[pick(2)].name,
                 .share_id = fmt::format("{}-{}", uid, i),
                 .consumed = Amounts{gib * static_cast<std::int64_t>(1 + pick(5)),
                                     static_cast<std::int64_t>(pick(5) * 20), 1}});
        }
        claims_.emplace(uid, std::move(known));
    }

    Known* any() {
        if (claims_.empty()) return nullptr;
        return &std::next(claims_.begin(), static_cast<std::ptrdiff_t>(pick(claims_.size())))
                    ->second;
    }

    /// Runs a call that may die in the middle of its changes; nothing where it did.
    template <class Call>
    auto survive(Call call) -> std::optional<decltype(call())> {
        if (pick(3) == 0) {
            files.crash_after = static_cast<int>(pick(8));
            files.crash_before = pick(2) == 0;
        }
        try {
            auto result = call();
            files.crash_after = -1;
            return result;
        } catch (const Crash&) {
            restart();
            return std::nullopt;
        }
    }

    void prepare() {
        Known* known = any();
        if (known == nullptr) return;
        const bool away = pick(5) == 0;
        PrepareFlow& flow = some();
        ClaimLookup lookup{known->facts, flow.now_asking()};
        if (away) lookup.facts = fail(ErrorKind::unavailable, "away");
        const ClaimName claim = known->facts.claim;
        if (!away) ended_.erase(claim.uid);  // begun anew: files may be there, whatever comes of it
        const auto result = survive([&] { return flow.prepare(claim, lookup); });
        if (!result || !*result) return;
        if (known->prepared) CHECK(**result == known->answer);
        // Completed before a crash, though the kubelet was not told; never what it has ended.
        if (away) CHECK_FALSE(ended_.contains(claim.uid));
        took(*known, **result);
    }

    void took(Known& known, const std::vector<PreparedShare>& answer) {
        CHECK(answer.size() == known.facts.devices.size());
        const auto all = files.all();
        CHECK(all.contains("/cdi/" + cdi_file_name(known.facts.claim.uid)));
        if (!known.prepared) {
            for (std::size_t i = 0; i < answer.size(); ++i) {
                const std::string ledger =
                    "/shares/" + share_name(known.facts.claim.uid, i) + "/ledger";
                REQUIRE(all.contains(ledger));
                std::string used = all.at(ledger);
                used.back() = marker;
                files.put(ledger, used);
            }
        }
        if (!known.prepared) known.cdi = all.at("/cdi/" + cdi_file_name(known.facts.claim.uid));
        known.prepared = true;
        known.answer = answer;
    }

    void unprepare() {
        Known* known = any();
        if (known == nullptr) return;
        const std::string uid = known->facts.claim.uid;
        known->prepared = false;  // the kubelet asks when no container runs any more
        const auto result = survive([&] { return some().unprepare(uid); });
        if (!result) return;
        REQUIRE(*result);  // also on a full disk
        ended_.insert(uid);
        if (pick(2) == 0) claims_.erase(uid);
    }

    /// A question to the API server that was answered before the claim was unprepared.
    void late_prepare() {
        Known* known = any();
        if (known == nullptr) return;
        const ClaimName claim = known->facts.claim;
        const ClaimLookup lookup{known->facts, flow_->now_asking()};
        known->prepared = false;
        clock_.advance(std::chrono::microseconds(1));
        // Of a claim without a record, and on a full disk, the mark is the instance's own.
        const auto record = flow_->record(claim.uid);
        const bool is_told = !files.full && record && *record;
        REQUIRE((is_told ? some() : *flow_).unprepare(claim.uid));
        ended_.insert(claim.uid);
        CHECK_FALSE(flow_->prepare(claim, lookup));
    }

    void lose_cdi_file() {
        if (const Known* known = any()) files.drop("/cdi/" + cdi_file_name(known->facts.claim.uid));
    }

    /// Somebody writes into the limits of a share, and what the agent does next mends them.
    void damage_limits() {
        const Known* known = any();
        if (known == nullptr || !known->prepared || files.full) return;
        const ClaimName claim = known->facts.claim;
        const std::string path =
            "/shares/" + share_name(claim.uid, pick(known->facts.devices.size())) + "/limits";
        std::string page = files.all().at(path);
        constexpr std::size_t behind_version = 12;
        constexpr std::size_t fields = 128;
        const std::size_t place = behind_version + pick(fields);
        if (pick(3) == 0) page.resize(pick(page.size()));
        if (page.size() > place) page[place] = static_cast<char>(page[place] + 1 + pick(255));
        files.put(path, page);
        if (pick(2) == 0) {
            files.drop("/cdi/" + cdi_file_name(claim.uid));
            CHECK(flow_->prepare(claim, {known->facts, flow_->now_asking()}));
        } else {
            static_cast<void>(some().hold_to_limits());
            held_ = true;
        }
    }

    std::mt19937 random_;
    ManualClock clock_{ManualClock::Wall(std::chrono::seconds(1'700'000'000))};
    Inventory inventory_;
    drawbridge::test::Folder folder_;
    std::unique_ptr<PrepareFlow> flow_;
    std::unique_ptr<PrepareFlow> other_;  ///< the one before, during a rolling update
    std::size_t build_ = 0;               ///< of `flow_`
    std::int64_t rule_ = 8 * gib;         ///< what the administrator lets a share have
    bool replace_libcuda_ = false;        ///< new claims get the front
    bool held_ = true;                    ///< no change of limits was left half done
    std::map<std::string, Known> claims_;
    std::set<std::string> ended_;
    int boot_ = 1;
    unsigned count_ = 0;
};

/// As DRAWBRIDGE_AGENT_LIVES says; `tests/run --long` sets it.
unsigned lives() {
    const char* text = std::getenv("DRAWBRIDGE_AGENT_LIVES");
    return text == nullptr ? 1000U : static_cast<unsigned>(std::atoi(text));
}

}  // namespace

TEST_CASE("no life of a node breaks an account, loses a file or keeps one") {
    for (unsigned seed = 1; seed <= lives(); ++seed) {
        CAPTURE(seed);
        Life life(seed);
        for (int i = 0; i < 60; ++i) {
            CAPTURE(i);
            life.step();
            life.check();
        }
        life.end_all();
    }
}
