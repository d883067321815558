// The built-in profiles: which driver the claims are written for.

#include "translate/settings.hpp"
#include "translate/settings_problems.hpp"

#include <array>
#include <utility>

namespace drawbridge::translate {
namespace {

Settings drawbridge_profile() {
    return Settings{};
}

/// Project-HAMi's k8s-dra-driver (legacy-requests.md T.1): no slots, no NUMA attribute, no priority
/// in a claim, and an exclusive card cannot be limited to a part of its memory (R5).
Settings hami_profile() {
    Settings settings;
    settings.profile = "hami";
    Target& target = settings.target;
    target.driver = "hami-core-gpu.project-hami.io";
    target.device_class = "hami-core-gpu.project-hami.io";
    target.slots_capacity.clear();
    target.numa_attribute.clear();
    target.priority = PriorityForm::environment;
    target.exclusive_memory = ExclusiveMemory::drop;
    return settings;
}

/// NVIDIA's driver: whole cards and MIG instances. Its `memory` capacity is the size of a device,
/// good for selectors; no part of it can be asked for.
Settings nvidia_profile() {
    Settings settings;
    settings.profile = "nvidia";
    Target& target = settings.target;
    target.driver = "gpu.nvidia.com";
    target.device_class = "gpu.nvidia.com";
    target.cores_capacity.clear();
    target.slots_capacity.clear();
    target.numa_attribute.clear();
    target.priority = PriorityForm::environment;
    target.shares = false;
    target.mode_classes = {{"mig", ModeTarget{.device_class = "mig.nvidia.com"}}};
    return settings;
}

struct Profile {
    std::string_view name;
    Settings (*make)();
};

constexpr std::array profiles = {
    Profile{"drawbridge", drawbridge_profile},
    Profile{"hami", hami_profile},
    Profile{"nvidia", nvidia_profile},
};

}  // namespace

base::Result<Settings> profile_settings(std::string_view profile) {
    std::vector<std::string_view> names;
    for (const auto& candidate : profiles) {
        if (candidate.name == profile) return candidate.make();
        names.push_back(candidate.name);
    }
    return base::fail(base::ErrorKind::invalid_input, unknown_name("profile", profile, names),
                      "/profile");
}

}  // namespace drawbridge::translate
