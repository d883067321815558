// Vectors 139 to 149 of legacy-requests.md: what several pods on one card come to, on a small model
// of consumable capacity (dra.md 2.1) with the capacities of design.md decision 4.

#include "tests/translate/judge.hpp"
#include "tests/translate/pod_generator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace drawbridge::oracle {
namespace {

/// Cards and what is taken of them.
class Cards {
public:
    explicit Cards(std::vector<ModelDevice> devices)
        : devices_(std::move(devices)), used_(devices_.size()) {}

    /// Finds devices for every request, first fit with backtracking, and books them; false changes
    /// nothing.
    bool allocate(const Claim& claim) {
        std::vector<std::pair<const Request*, std::size_t>> picks;
        return pick(claim, 0, 0, 0, picks);
    }

private:
    using Picks = std::vector<std::pair<const Request*, std::size_t>>;

    /// `unit` of `request` still to be found, from device `from` on (units of one request ascend,
    /// dra.md 2.2).
    bool pick(const Claim& claim, std::size_t request, std::int64_t unit, std::size_t from,
              Picks& picks) {
        if (request == claim.requests.size()) return true;
        const auto& wanted = claim.requests[request];
        if (unit == wanted.alternatives[0].count) return pick(claim, request + 1, 0, 0, picks);
        for (const auto& option : wanted.alternatives) {
            for (std::size_t i = from; i < devices_.size(); ++i) {
                if (!option.takes(devices_[i]) || !apart(claim, wanted, i, picks) ||
                    !book(i, option, 1))
                    continue;
                picks.emplace_back(&wanted, i);
                if (pick(claim, request, unit + 1, i + 1, picks)) return true;
                picks.pop_back();
                book(i, option, -1);
            }
        }
        return false;
    }

    bool apart(const Claim& claim, const Request& wanted, std::size_t device,
               const Picks& picks) const {
        for (const auto& constraint : claim.constraints) {
            if (!constraint.distinct || !constraint.requests.contains(wanted.name)) continue;
            for (const auto& [other, taken] : picks) {
                if (constraint.requests.contains(other->name) && taken == device) return false;
            }
        }
        return true;
    }

    /// Adds (or with -1 takes back) the amounts, if all of them fit.
    bool book(std::size_t index, const Alternative& option, std::int64_t sign) {
        auto sums = used_[index];
        for (const auto& [name, amount] : option.charge(devices_[index])) {
            sums[name] += sign * amount;
            if (sums[name] > devices_[index].capacity.at(name)) return false;
        }
        used_[index] = std::move(sums);
        return true;
    }

    std::vector<ModelDevice> devices_;
    std::vector<std::map<std::string, std::int64_t>> used_;
};

Claim claim_for(const std::string& figures) {
    static const Texts names{
        {"gpu", "nvidia.com/gpu"}, {"mem", "nvidia.com/gpumem"}, {"cores", "nvidia.com/gpucores"}};
    const auto settings = translate::profile_settings("drawbridge").value();
    ContainerInput container{"main", Sort::main, false, {}, {}};
    std::istringstream stream(figures);
    for (std::string word; stream >> word;) {
        container.limits[names.at(word.substr(0, word.find(':')))] =
            word.substr(word.find(':') + 1);
    }
    const auto pod = to_json(GeneratedPod{{{container}, {}, {}, {}, "", ""}, false, 1}, 1);
    const auto read =
        read_translation(pod, translate_text(pod, settings, translate::Cluster{}), settings);
    REQUIRE(read.claims.size() == 1);
    return read.claims.begin()->second;
}

ModelDevice card(const std::string& name, std::int64_t memory_mib, std::int64_t slots) {
    return {name,
            "gpu.drawbridge.dev",
            {{"uuid", name}, {"productName", "NVIDIA A100"}},
            {{"memory", memory_mib << 20U}, {"cores", 100}, {"slots", slots}}};
}

struct Row {
    int number;
    std::vector<std::string> tenants;
    const char* newcomer;
    bool joins;
    std::string why;
    std::int64_t memory_mib = 81920;
    std::int64_t slots = 10;
};

TEST_CASE("vectors 139 to 149: who joins whom on one card") {
    const std::vector<Row> rows{
        {139, {"mem:3000", "mem:3000", "mem:3000"}, "mem:3000", true, "room for all"},
        {140, {"mem:3000"}, "gpu:1", false, "a whole card needs all memory, cores and slots"},
        {141, {"gpu:1"}, "mem:3000", false, "nothing is left"},
        {142,
         {"mem:3000 cores:100"},
         "mem:3000",
         false,
         "memory is left, but no slot: the cap is kept and nobody joins"},
        {143,
         {"mem:3000"},
         "mem:3000 cores:100",
         false,
         "one slot is taken, and exclusive needs all"},
        {144,
         {"mem:3000 cores:60", "mem:3000 cores:40"},
         "mem:3000",
         true,
         "HAMi's no-free-ride rule cannot be expressed"},
        {145, {"mem:3000 cores:60"}, "mem:3000 cores:50", false, "cores"},
        {146, {"gpu:1 cores:0"}, "mem:100 cores:30", false, "memory"},
        {147,
         {"mem:100", "mem:100"},
         "mem:100",
         false,
         "the split count is a capacity here",
         81920,
         2},
        {148, {}, "mem:60000", true, "the driver publishes the scaled memory", 2 * 49152},
        {1480, {}, "mem:60000", false, "and does not fit without scaling", 49152},
        {149,
         {"mem:3000 cores:100"},
         "mem:3000 cores:100",
         false,
         "exclusive stays exclusive under core scaling"},
        {1, {"mem:3000 cores:30", "mem:3000"}, "mem:75921", false, "one MiB too much"},
        {2, {"mem:3000 cores:30", "mem:3000"}, "mem:75920", true, "to the last MiB"},
    };
    for (const auto& row : rows) {
        INFO("vector ", row.number, ": ", row.why);
        Cards cards({card("GPU-a", row.memory_mib, row.slots)});
        for (const auto& tenant : row.tenants)
            CHECK(cards.allocate(claim_for(tenant)));
        CHECK(cards.allocate(claim_for(row.newcomer)) == row.joins);
    }
}

TEST_CASE("several devices of one container are different cards, and each carries the share") {
    Cards two({card("GPU-a", 81920, 10), card("GPU-b", 81920, 10)});
    CHECK_FALSE(two.allocate(claim_for("gpu:3 mem:1000")));
    CHECK(two.allocate(claim_for("gpu:2 mem:50000")));
    CHECK_FALSE(two.allocate(claim_for("mem:50000")));
    CHECK(two.allocate(claim_for("gpu:2 mem:30000")));
}

}  // namespace
}  // namespace drawbridge::oracle
