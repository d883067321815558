#include "translate/unknown_names.hpp"

#include "base/text.hpp"
#include "translate/legacy_request.hpp"
#include "translate/notes.hpp"
#include "translate/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace drawbridge::translate {

namespace {

using Names = std::vector<std::string_view>;

/// The known name that a slip of the pen leads to another from; empty if there is none.
std::string_view meant_by(std::string_view name, const Names& known) {
    constexpr std::size_t longest = 64;  // the distance takes the product of the sizes
    constexpr std::size_t slips = 2;
    if (name.size() > longest) return {};
    std::string_view best;
    std::size_t least = slips + 1;
    for (const std::string_view candidate : known) {
        if (candidate.size() > longest) continue;
        const std::size_t distance =
            base::edit_distance(base::lower_ascii(name), base::lower_ascii(candidate));
        if (distance < least) best = candidate;
        least = std::min(least, distance);
    }
    return best;
}

/// What HAMi writes itself, for any vendor, and what chooses devices of the others
/// (legacy-requests.md 2.3, 7).
bool is_not_for_us(std::string_view name) {
    const bool chooses = name.starts_with("hami.io/use-") || name.starts_with("hami.io/no-use-");
    return name.starts_with("hami.io/vgpu-") || name.starts_with("hami.io/bind-") ||
           name.find("-devices-") != std::string_view::npos || (chooses && name.ends_with("-uuid"));
}

/// Whether an annotation is one of HAMi's by its name. Others write annotations in NVIDIA's domain
/// as well; what HAMi has there speaks of few things.
bool looks_like_hamis(std::string_view name) {
    if (name.starts_with("hami.io/")) return !is_not_for_us(name);
    constexpr std::string_view domain = "nvidia.com/";
    if (!name.starts_with(domain)) return false;
    constexpr std::array beginnings = {"use-",  "use_",  "usegpu",      "nouse",     "no-use",
                                       "numa-", "vgpu-", "mig-profile", "schedule-", "scheduler-"};
    constexpr std::array parts = {"gputype", "gpu-type", "gpuuuid", "gpu-uuid", "scheduler-policy"};
    const std::string word = base::lower_ascii(name.substr(domain.size()));
    return std::ranges::any_of(beginnings, [&](auto start) { return word.starts_with(start); }) ||
           std::ranges::any_of(parts,
                               [&](auto part) { return word.find(part) != std::string::npos; });
}

/// What to write for an annotation that has no effect; empty where nobody can tell.
std::string advice(std::string_view name, const Names& known, const Settings& settings) {
    const auto& labels = settings.policy.opt_out_labels;
    const bool label =
        std::ranges::any_of(labels, [&](const auto& entry) { return entry.first == name; });
    if (label) return "write it under metadata.labels";
    const std::string_view meant = meant_by(name, known);
    return meant.empty() ? std::string() : fmt::format("write {}", meant);
}

/// Labels that count as annotations only.
void check_labels(base::JsonView pod, const Settings& settings, Diagnostics& diagnostics) {
    const base::JsonView labels = pod["metadata"]["labels"];
    for (const std::string_view name : annotation_names(settings.annotations)) {
        if (labels[name].is_missing()) continue;
        const std::string text = base::shortened(labels[name].string_or(""), 64);
        report(diagnostics, Code::annotation_ignored,
               {kube::PointerPath() / "metadata" / "labels" / name, {}, std::string(name), text},
               fmt::format("label {} is \"{}\", and counts as an annotation only; it has no effect",
                           name, text),
               "write it under metadata.annotations");
    }
}

void check_annotations(base::JsonView pod, const Settings& settings, Diagnostics& diagnostics) {
    constexpr std::size_t enough = 16;  // each costs a comparison with all known names
    const Names known = annotation_names(settings.annotations);
    std::size_t count = 0;
    for (const auto& [name, value] : annotations_of(pod).members()) {
        if (!looks_like_hamis(name) || std::ranges::find(known, name) != known.end()) continue;
        if (++count > enough) return;
        const std::string text = base::shortened(value.string_or(""), 64);
        report(
            diagnostics, Code::annotation_ignored,
            {kube::PointerPath() / "metadata" / "annotations" / name, {}, std::string(name), text},
            fmt::format("annotation {} is \"{}\", and is none that Drawbridge knows; it has no "
                        "effect",
                        name, text),
            advice(name, known, settings));
    }
}

/// `nvidia.com/` of `nvidia.com/gpu`.
std::string_view domain_of(std::string_view name) {
    const auto slash = name.find('/');
    return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash + 1);
}

/// A resource of the domain in which HAMi's are, or the site's, that speaks of GPUs.
bool speaks_of_gpus(std::string_view name, const Settings& settings) {
    const std::string_view domain = domain_of(name);
    if (domain != "nvidia.com/" && domain != domain_of(settings.resources.count)) return false;
    return !domain.empty() &&
           base::lower_ascii(name.substr(domain.size())).find("gpu") != std::string::npos;
}

void check_resources(const ContainerView& container, const Names& known, const Settings& settings,
                     Diagnostics& diagnostics) {
    const base::JsonView resources = container.json["resources"];
    for (const char* list : {"limits", "requests"}) {
        for (const auto& [name, value] : resources[list].members()) {
            const bool ours = std::ranges::find(known, name) != known.end();
            const bool said =
                list == std::string_view("requests") && !resources["limits"][name].is_missing();
            if (ours || said || !speaks_of_gpus(name, settings)) continue;
            const std::string_view meant = meant_by(name, known);
            report(diagnostics, Code::resource_unknown,
                   {container.path / "resources" / list / name, container.name, std::string(name),
                    value.scalar_text().value_or("")},
                   fmt::format("{}: resource {} is none that is translated; it stays, and the pod "
                               "waits for a node that offers it",
                               quoted_container(container), name),
                   meant.empty() ? std::string()
                                 : fmt::format("write {}, or say in the settings (resources) that "
                                               "it is called {} here",
                                               meant, name));
        }
    }
}

}  // namespace

void check_unknown_names(const PodView& pod, const Settings& settings, Diagnostics& diagnostics) {
    check_annotations(pod.pod, settings, diagnostics);
    check_labels(pod.pod, settings, diagnostics);
    const Names known = legacy_names(settings.resources);
    for (const ContainerView& container : pod.containers) {
        if (find_legacy(container.json, known).empty()) continue;
        check_resources(container, known, settings, diagnostics);
    }
}

}  // namespace drawbridge::translate
