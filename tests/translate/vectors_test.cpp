// The vectors of legacy-requests.md section 10, on both forms of claims and on two profiles.

#include "tests/translate/vector_support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace drawbridge::oracle {
namespace {

using translate::Verdict;

struct Vector {
    int number;
    std::string figures;
    Texts annotations;
    std::string right;
    std::string codes;
    std::string hami_right = "same";
    std::string hami_codes = "same";
};

const std::vector<Vector>& vectors() {
    static const std::vector<Vector> all{
#include "tests/translate/vectors.inc"
    };
    return all;
}

/// `@count=2`: a default of the site.
void set_default(const std::string& word, translate::Defaults& defaults) {
    const auto equals = word.find('=');
    const auto name = word.substr(1, equals - 1);
    auto& field = name == "count"    ? defaults.count
                  : name == "memory" ? defaults.memory_mib
                  : name == "cores"  ? defaults.cores
                                     : defaults.memory_factor;
    field = std::stoll(word.substr(equals + 1));
}

/// `2 {30, 50%}`; nullopt for `deny`, `strip`, `leave`.
std::optional<Share> share_of(const std::string& right, const Texts& limits) {
    if (std::isdigit(static_cast<unsigned char>(right[0])) == 0) return std::nullopt;
    Share share;
    std::istringstream stream(right);
    char sign = 0;
    std::string memory;
    stream >> share.devices >> sign >> share.cores >> sign >> memory;
    memory.pop_back();
    if (memory.back() == '%') {
        share.memory = Memory::percent;
        share.amount = std::stoll(memory);
    } else if (memory != "-") {
        share.memory = Memory::mib;
        share.amount = std::stoll(memory);
    }
    if (limits.contains("nvidia.com/priority"))
        share.priority = std::stoll(limits.at("nvidia.com/priority"));
    return share;
}

/// Every warning and denial is expected, and every expected one is there.
void check_codes(const translate::Diagnostics& diagnostics, const std::string& expected) {
    std::set<std::string> found;
    for (const auto& diagnostic : diagnostics) {
        if (diagnostic.severity != translate::Severity::note)
            found.insert(std::string(name(diagnostic.code)));
    }
    for (auto token : words(expected)) {
        const bool optional = token[0] == '?';
        if (optional) token.erase(0, 1);
        const auto either = words(token, '|');
        const auto there = std::find_if(either.begin(), either.end(),
                                        [&](const auto& code) { return found.erase(code) > 0; });
        CHECK_MESSAGE((optional || there != either.end()), "missing: ", token);
    }
    for (const auto& code : found)
        FAIL_CHECK("not expected: " << code);
}

void check_vector(const Vector& vector, Site site, bool hami) {
    for (const auto& word : words(vector.figures)) {
        if (word[0] == '@') set_default(word, site.settings.defaults);
    }
    PodInput input;
    const auto limits = figures(vector.figures);
    input.containers = {{"main", Sort::main, false, limits, limits}};
    input.annotations = vector.annotations;
    const auto& right = hami && vector.hami_right != "same" ? vector.hami_right : vector.right;
    const auto& codes = hami && vector.hami_codes != "same" ? vector.hami_codes : vector.codes;
    const auto share = share_of(right, limits);
    const auto verdict = right == "deny"    ? Verdict::deny
                         : right == "leave" ? Verdict::leave
                                            : Verdict::translate;

    const auto oracle = answer_of(input, site.settings, site.cluster);
    CHECK(oracle.verdict == verdict);
    CHECK((oracle.containers[0].share == share || verdict == Verdict::deny));

    const auto answered = ask(input, site);
    CHECK(name(answered.translation.verdict) == name(verdict));
    check_codes(answered.translation.diagnostics, codes);
    CHECK(answered.translation.templates.size() == (share ? 1 : 0));
    CHECK(judge(input, answered.pod, oracle, answered.translation, site.settings, site.cluster) ==
          "");
    if (!share || answered.translation.verdict != Verdict::translate) return;
    const auto read = read_translation(answered.pod, answered.translation, site.settings);
    REQUIRE(read.claims.size() == 1);
    CHECK_NOTHROW(judge_claim(read.claims.begin()->second, {*share}, input.annotations,
                              site.settings, site.cluster));
}

TEST_CASE("vectors of single containers come out as specified") {
    for (const auto& vector : vectors()) {
        for (const auto& [profile, minor] : std::vector<std::pair<std::string, int>>{
                 {"drawbridge", 36}, {"drawbridge", 35}, {"hami", 36}, {"hami", 35}}) {
            INFO("vector ", vector.number, ": ", vector.figures, " (", profile, " on 1.", minor,
                 ")");
            check_vector(vector, site_for(profile, minor), profile == "hami");
        }
    }
}

}  // namespace
}  // namespace drawbridge::oracle
