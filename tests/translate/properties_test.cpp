// Laws that hold for every pod (legacy-requests.md 10.8, style.md Part 3), tried on random ones.

#include "kube/json_patch.hpp"
#include "tests/translate/judge.hpp"
#include "tests/translate/pod_generator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <regex>
#include <set>
#include <string>

namespace drawbridge::oracle {
namespace {

using nlohmann::json;
using translate::Translation;
using translate::Verdict;

/// What a translation says, by value, without the order of the patch.
json content_of(const Translation& translation, const std::string& pod) {
    json all;
    all["verdict"] = std::string(name(translation.verdict));
    all["after"] = json::parse(pod).patch(json::parse(translation.patch.to_json()));
    for (const auto& made : translation.templates)
        all["templates"][made.name] = kube::to_json(made.spec);
    std::multiset<std::string> said;
    for (const auto& found : translation.diagnostics) {
        said.insert(std::string(name(found.code)) + found.path + found.container + found.message +
                    found.fix);
    }
    all["said"] = said;
    return all;
}

void check_diagnostics(const Translation& translation, const std::string& pod) {
    const auto document = json::parse(pod);
    bool denied = false;
    for (const auto& found : translation.diagnostics) {
        CAPTURE(name(found.code));
        CAPTURE(found.path);
        CHECK(found.path.starts_with("/"));
        const auto slash = found.path.rfind('/');
        CHECK_MESSAGE((document.contains(json::json_pointer(found.path)) ||
                       document.contains(json::json_pointer(found.path.substr(0, slash)))),
                      "neither the place nor its parent is in the pod");
        CHECK_FALSE(found.message.empty());
        if (found.severity == translate::Severity::denied) {
            denied = true;
            CHECK_FALSE(found.fix.empty());
        }
    }
    CHECK(denied == (translation.verdict == Verdict::deny));
    if (translation.verdict != Verdict::translate) CHECK(translation.patch.empty());
    if (translation.verdict != Verdict::translate) CHECK(translation.templates.empty());
}

void check_paths(const Translation& translation) {
    static const std::regex allowed(
        "/spec/(initContainers|containers)/[0-9]+/(resources|env)(/.*)?|/spec/resourceClaims(/-)?|/"
        "spec/schedulerName|"
        "/spec/runtimeClassName|/metadata(/annotations(/drawbridge\\.dev~1original)?)?");
    for (const auto& operation : translation.patch.operations()) {
        CAPTURE(operation.path);
        CHECK(std::regex_match(operation.path, allowed));
        if (operation.path == "/metadata") CHECK(operation.kind == kube::PatchKind::add);
    }
}

/// The patch applied as text: the same value as by the other implementation, foreign bytes
/// untouched.
void check_text(const Translation& translation, const std::string& pod, bool strange,
                const Site& site) {
    const auto text = kube::apply_patch(pod, translation.patch);
    REQUIRE(text);
    CHECK(json::parse(*text) == json::parse(pod).patch(json::parse(translation.patch.to_json())));
    if (strange) {
        for (const auto& piece : untouchable_pieces()) {
            CHECK_MESSAGE((pod.find(piece) == pod.npos || text->find(piece) != text->npos),
                          "lost: ", piece);
        }
    }
    const auto again = translate_text(*text, site.settings, site.cluster);
    CHECK(name(again.verdict) == "leave");
    CHECK(again.templates.empty());
    CHECK(again.patch.empty());
}

void check_names(const Translation& translation) {
    for (const auto& made : translation.templates) {
        CHECK(std::regex_match(made.name, std::regex("drawbridge-[a-z2-7]{20}")));
        CHECK(made.spec.requests.size() <= 32);
    }
}

TEST_CASE("laws hold for random pods") {
    constexpr std::uint64_t pods = 3000;
    for (std::uint64_t seed = 1; seed <= pods; ++seed) {
        const auto generated = generate_pod(seed);
        const auto& site = sites()[seed % sites().size()];
        const auto pod = to_json(generated, seed);
        INFO("seed ", seed, " (", site.name, "): ", pod);
        const auto& labels = generated.input.namespace_labels;
        const auto translation = translate_text(pod, site.settings, site.cluster, labels);
        check_diagnostics(translation, pod);
        check_paths(translation);
        check_names(translation);
        if (labels.empty() && translation.verdict != Verdict::deny)
            check_text(translation, pod, generated.strange, site);
        const auto other = to_json(generated, seed + 1);
        CHECK(content_of(translation, pod) ==
              content_of(translate_text(other, site.settings, site.cluster, labels), other));
    }
}

/// Legacy-requests.md 10.8, item 3: all presences of four figures, with values at their edges.
TEST_CASE("every presence of the four figures means what HAMi's stages make of it") {
    const std::vector<std::string> values{"", "0", "1", "50", "100", "101"};
    const translate::ResourceNames names;
    const std::vector<std::string> keys{names.count, names.memory, names.memory_percentage,
                                        names.cores};
    for (std::size_t combination = 0; combination < 6 * 6 * 6 * 6; ++combination) {
        ContainerInput container{"main", Sort::main, false, {}, {}};
        auto rest = combination;
        for (const auto& key : keys) {
            if (const auto& value = values[rest % 6]; !value.empty()) container.limits[key] = value;
            rest /= 6;
        }
        if (combination % 2 == 0) container.requests = container.limits;
        const PodInput input{{container}, {}, {}, {}, "", ""};
        const auto pod = to_json(GeneratedPod{input, false, combination}, combination);
        for (std::size_t i = 0; i < 3; ++i) {
            const auto& site = sites()[i];
            INFO(site.name, ": ", pod);
            CHECK(judge(input, pod, answer_of(input, site.settings, site.cluster),
                        translate_text(pod, site.settings, site.cluster), site.settings,
                        site.cluster) == "");
        }
    }
}

}  // namespace
}  // namespace drawbridge::oracle
