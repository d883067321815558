#pragma once
// What a pod with legacy GPU requests is to get: HAMi's stages of legacy-requests.md 1.3 and 1.4
// run step by step on maps of texts, then design.md. Slow and literal on purpose; shares nothing
// with translate/ but the settings.

#include "tests/translate/cel_model.hpp"
#include "translate/settings.hpp"
#include "translate/translate.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace drawbridge::oracle {

using Texts = std::map<std::string, std::string>;

enum class Sort { init, sidecar, main };

struct ContainerInput {
    std::string name;
    Sort sort = Sort::main;
    bool privileged = false;
    Texts limits;
    Texts requests;
};

/// A new pod as far as its meaning goes. Init containers and sidecars come first.
struct PodInput {
    std::vector<ContainerInput> containers;
    Texts annotations;
    Texts labels;
    Texts namespace_labels;
    std::string scheduler;  ///< empty: none named
    std::string node_name;
};

enum class Memory { all, mib, percent };

/// What a container is to get on each of its devices.
struct Share {
    std::int64_t devices = 1;
    Memory memory = Memory::all;
    std::int64_t amount = 0;  ///< MiB, or percent
    std::int64_t cores = 0;
    std::optional<std::int64_t> priority;

    [[nodiscard]] bool exclusive() const { return cores == 100; }
    /// Bytes of a device that has `device_bytes`; of a percentage whole MiB, rounded down.
    [[nodiscard]] std::int64_t memory_on(std::int64_t device_bytes) const;
    bool operator==(const Share&) const = default;
};

struct ContainerAnswer {
    bool named = false;   ///< has one of the legacy names in limits or requests
    bool faulty = false;  ///< a value of it is refused
    std::optional<Share> share;
};

struct PodAnswer {
    translate::Verdict verdict = translate::Verdict::leave;
    std::vector<ContainerAnswer> containers;
    std::set<std::string> reasons;  ///< of a denial: words for people who read a mismatch
    bool needs_sizes = false;       ///< no answer before the slices are listed
};

[[nodiscard]] PodAnswer answer_of(const PodInput& pod, const translate::Settings& settings,
                                  const translate::Cluster& cluster);

/// Whether HAMi would let the pod's annotations choose this device (legacy-requests.md 2.1).
[[nodiscard]] bool may_serve(const Texts& annotations, const translate::Settings& settings,
                             const ModelDevice& device);

/// How the pod's mode annotation is served: by our own class (absent, or hami-core among what it
/// allows), by a class that the settings name for the mode, or not at all (R12).
struct Mode {
    bool own = true;
    const translate::ModeTarget* target = nullptr;
};
[[nodiscard]] Mode mode_of(const Texts& annotations, const translate::Settings& settings);

/// Whether containers may use one claim, as far as their shares go (design.md, Details settled):
/// one count, one priority, and no container without a compute limit is capped by the figure of
/// another. 100 % caps nobody.
[[nodiscard]] bool may_share(const std::vector<Share>& users);

}  // namespace drawbridge::oracle
