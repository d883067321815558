#include "translate/pod_bounds.hpp"

#include "translate/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace drawbridge::translate {

namespace {

Subject spec(std::string_view member) {
    return {kube::PointerPath() / "spec" / member, {}, std::string(member), {}};
}

}  // namespace

bool within_bounds(const std::vector<ContainerChange>& containers,
                   const std::vector<OwnEntry>& entries, Diagnostics& diagnostics) {
    const auto asking = static_cast<std::size_t>(std::ranges::count_if(
        containers, [](const ContainerChange& container) { return !container.strip.empty(); }));
    std::unordered_set<std::string_view> templates;
    for (const OwnEntry& entry : entries)
        templates.insert(entry.claim_template);
    if (asking > max_gpu_containers) {
        report(diagnostics, Code::pod_too_large, spec("containers"),
               fmt::format("{} containers ask for GPU resources; {} are possible", asking,
                           max_gpu_containers));
    }
    if (templates.size() > max_templates) {
        report(diagnostics, Code::pod_too_large, spec("resourceClaims"),
               fmt::format("the pod names {} claim templates of Drawbridge; {} are possible",
                           templates.size(), max_templates));
    }
    return asking <= max_gpu_containers && templates.size() <= max_templates;
}

bool selectors_fit(const std::vector<std::string>& selectors, Diagnostics& diagnostics) {
    constexpr std::size_t longest = 10240;  // CELSelectorExpressionMaxLength
    const auto too_long = std::ranges::find_if(
        selectors, [](const std::string& selector) { return selector.size() > longest; });
    if (too_long == selectors.end()) return true;
    report(
        diagnostics, Code::selector_too_long,
        {kube::PointerPath() / "metadata" / "annotations", {}, "metadata.annotations", {}},
        fmt::format("the annotations choose devices by an expression of {} bytes; {} are allowed",
                    too_long->size(), longest));
    return false;
}

bool within_bounds(const std::vector<ClaimAssignment>& claims, Diagnostics& diagnostics) {
    std::vector<ClaimShape> shapes;
    for (const ClaimAssignment& claim : claims) {
        if (std::ranges::find(shapes, claim.shape) == shapes.end()) shapes.push_back(claim.shape);
    }
    if (shapes.size() <= max_templates) return true;
    report(diagnostics, Code::pod_too_large, spec("containers"),
           fmt::format("the containers ask for {} different GPU shares; {} are possible",
                       shapes.size(), max_templates));
    return false;
}

}  // namespace drawbridge::translate
