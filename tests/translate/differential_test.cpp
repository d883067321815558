// The core against the oracle on many random pods. DRAWBRIDGE_DIFFERENTIAL_PODS sets how many
// (100,000 unless told), DRAWBRIDGE_DIFFERENTIAL_SEED where to start.

#include "tests/translate/judge.hpp"
#include "tests/translate/pod_generator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <future>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace drawbridge::oracle {
namespace {

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): one thread
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string complaint(const GeneratedPod& pod, const Site& site) {
    const auto text = to_json(pod, pod.dress);
    const auto translation =
        translate_text(text, site.settings, site.cluster, pod.input.namespace_labels);
    return judge(pod.input, text, answer_of(pod.input, site.settings, site.cluster), translation,
                 site.settings, site.cluster);
}

/// Every pod that lacks one thing of this one.
std::vector<GeneratedPod> smaller(const GeneratedPod& pod) {
    std::vector<GeneratedPod> all;
    const auto with = [&](const std::function<void(GeneratedPod&)>& change) {
        all.push_back(pod);
        change(all.back());
    };
    if (pod.strange) with([](auto& one) { one.strange = false; });
    if (!pod.input.scheduler.empty()) with([](auto& one) { one.input.scheduler.clear(); });
    for (std::size_t i = 0; i < pod.input.containers.size(); ++i) {
        with([&](auto& one) {
            one.input.containers.erase(one.input.containers.begin() +
                                       static_cast<std::ptrdiff_t>(i));
        });
        const auto& container = pod.input.containers[i];
        for (const auto& [key, value] : container.limits) {
            with([&, name = key](auto& one) { one.input.containers[i].limits.erase(name); });
            with([&, name = key](auto& one) {
                one.input.containers[i].limits.erase(name);
                one.input.containers[i].requests.erase(name);
            });
        }
        for (const auto& [key, value] : container.requests) {
            with([&, name = key](auto& one) { one.input.containers[i].requests.erase(name); });
        }
    }
    for (const auto& [key, value] : pod.input.annotations) {
        with([name = key](auto& one) { one.input.annotations.erase(name); });
    }
    for (const auto& [key, value] : pod.input.labels)
        with([name = key](auto& one) { one.input.labels.erase(name); });
    return all;
}

/// The smallest pod that still gets a wrong answer, found by leaving things out.
GeneratedPod shrunk(GeneratedPod pod, const Site& site) {
    for (bool found = true; found;) {
        found = false;
        for (auto& candidate : smaller(pod)) {
            if (!candidate.input.containers.empty() && !complaint(candidate, site).empty()) {
                pod = std::move(candidate);
                found = true;
                break;
            }
        }
    }
    return pod;
}

std::string describe(const PodAnswer& answer) {
    std::ostringstream out;
    out << name(answer.verdict);
    for (const auto& container : answer.containers) {
        out << "; ";
        if (!container.share) {
            out << (container.faulty ? "faulty" : "none");
            continue;
        }
        const auto& share = *container.share;
        out << share.devices << " {" << share.cores << ", ";
        out << (share.memory == Memory::all ? "-" : std::to_string(share.amount));
        out << (share.memory == Memory::percent ? "%}" : "}");
    }
    for (const auto& reason : answer.reasons)
        out << "\n      " << reason;
    return out.str();
}

std::string describe(const translate::Translation& translation) {
    std::ostringstream out;
    out << name(translation.verdict) << "\n      " << translation.patch.to_json();
    for (const auto& made : translation.templates)
        out << "\n      " << made.name << ' ' << kube::to_json(made.spec);
    for (const auto& found : translation.diagnostics) {
        out << "\n      " << name(found.severity) << ' ' << name(found.code) << ' '
            << found.container << ": " << found.message;
    }
    return out.str();
}

std::string report(const GeneratedPod& pod, const Site& site) {
    const auto text = to_json(pod, pod.dress);
    return site.name + ": " + complaint(pod, site) + "\n  pod:    " + text +
           "\n  oracle: " + describe(answer_of(pod.input, site.settings, site.cluster)) +
           "\n  core:   " +
           describe(translate_text(text, site.settings, site.cluster, pod.input.namespace_labels));
}

/// What one thread found among every `step`-th seed.
struct Found {
    std::map<std::string, std::size_t> verdicts;  ///< how many pods came to each
    std::map<std::string, std::uint64_t>
        mismatches;  ///< complaint without its figures -> first seed
};

const Site& site_for(std::uint64_t seed) {
    Choice choice(seed);
    return choice.chance(60) ? sites()[choice.below(3)] : choice.of(sites());
}

Found compare(std::uint64_t first, std::uint64_t end, std::uint64_t step) {
    constexpr std::size_t enough = 10;
    Found found;
    for (auto seed = first; seed < end && found.mismatches.size() < enough; seed += step) {
        const auto pod = generate_pod(seed);
        const auto& site = site_for(seed);
        const auto right = answer_of(pod.input, site.settings, site.cluster);
        ++found.verdicts[std::string(name(right.verdict))];
        auto wrong = complaint(pod, site);
        std::erase_if(wrong, [](char c) { return c >= '0' && c <= '9'; });
        if (!wrong.empty()) found.mismatches.emplace(std::move(wrong), seed);
    }
    return found;
}

TEST_CASE("core and oracle agree on random pods") {
    const auto pods = number_from("DRAWBRIDGE_DIFFERENTIAL_PODS", 100'000);
    const auto first = number_from("DRAWBRIDGE_DIFFERENTIAL_SEED", 20'260'901);
    MESSAGE("differential test: ", pods, " pods from seed ", first);
    const std::uint64_t threads = std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::future<Found>> parts;
    for (std::uint64_t i = 0; i < threads; ++i) {
        parts.push_back(std::async(std::launch::async, compare, first + i, first + pods, threads));
    }
    Found all;
    for (auto& part : parts) {
        const auto found = part.get();
        for (const auto& [verdict, count] : found.verdicts)
            all.verdicts[verdict] += count;
        all.mismatches.insert(found.mismatches.begin(), found.mismatches.end());
    }
    for (const auto& [wrong, seed] : all.mismatches) {
        FAIL_CHECK("seed " << seed << ", "
                           << report(shrunk(generate_pod(seed), site_for(seed)), site_for(seed)));
    }
    for (const auto* verdict :
         {"leave", "translate", "deny"}) {  // a generator that runs dry proves nothing
        CHECK_MESSAGE(all.verdicts[verdict] * 50 > pods, verdict, ": ", all.verdicts[verdict]);
    }
}

}  // namespace
}  // namespace drawbridge::oracle
