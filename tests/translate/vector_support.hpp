#pragma once
// What the tests of vectors share: figures in short form, sites, and pods that are tried on core
// and oracle alike.

#include "tests/translate/judge.hpp"
#include "tests/translate/pod_generator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::oracle {

inline std::vector<std::string> words(const std::string& text, char separator = ' ') {
    std::vector<std::string> found;
    std::istringstream stream(text);
    for (std::string word; std::getline(stream, word, separator);) {
        if (!word.empty()) found.push_back(word);
    }
    return found;
}

inline Site site_for(const std::string& profile, int minor) {
    Site site{profile + " on 1." + std::to_string(minor),
              translate::profile_settings(profile).value(),
              {}};
    site.cluster.minor = minor;
    for (const std::int64_t size : {16384, 24564, 81920})
        site.cluster.memory_sizes.push_back(size << 20U);
    return site;
}

inline Texts figures(const std::string& text) {
    static const Texts names{{"gpu", "nvidia.com/gpu"},
                             {"mem", "nvidia.com/gpumem"},
                             {"pct", "nvidia.com/gpumem-percentage"},
                             {"cores", "nvidia.com/gpucores"},
                             {"prio", "nvidia.com/priority"}};
    Texts found;
    for (const auto& word : words(text)) {
        const auto colon = word.find(':');
        if (word[0] != '@') found[names.at(word.substr(0, colon))] = word.substr(colon + 1);
    }
    return found;
}

struct Answered {
    std::string pod;
    translate::Translation translation;
};

inline Answered ask(const PodInput& input, const Site& site) {
    auto pod = to_json(GeneratedPod{input, false, 1}, 1);
    auto translation = translate_text(pod, site.settings, site.cluster, input.namespace_labels);
    return {std::move(pod), std::move(translation)};
}

/// A pod of `drawbridge on 1.36` and what the oracle and the core make of it; they must agree.
struct Tried {
    ReadPod read;
    translate::Translation translation;
    std::string pod;
};

inline Tried try_pod(const PodInput& input, const Site& site = site_for("drawbridge", 36)) {
    auto answered = ask(input, site);
    const auto oracle = answer_of(input, site.settings, site.cluster);
    CHECK(judge(input, answered.pod, oracle, answered.translation, site.settings, site.cluster) ==
          "");
    return {read_translation(answered.pod, answered.translation, site.settings),
            answered.translation, answered.pod};
}

inline ContainerInput container(std::string name, Sort sort, const std::string& text) {
    return {std::move(name), sort, false, figures(text), figures(text)};
}

inline PodInput pod_of(std::vector<ContainerInput> containers) {
    return {std::move(containers), {}, {}, {}, "", ""};
}

inline bool has_code(const translate::Translation& translation, const std::string& code) {
    return std::any_of(translation.diagnostics.begin(), translation.diagnostics.end(),
                       [&](const auto& diagnostic) { return name(diagnostic.code) == code; });
}

}  // namespace drawbridge::oracle
