#pragma once
// From the shape of a claim to the template that gives it (dra.md 5, design.md decisions 4, 5 and
// 6).

#include "kube/claim_model.hpp"
#include "translate/claim_shape.hpp"
#include "translate/diagnostic.hpp"
#include "translate/placement.hpp"
#include "translate/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// What a template depends on beside its shape; the same for all claims of a pod.
struct TemplateContext {
    const Settings& settings;
    const Placement& placement;
    const std::vector<std::int64_t>& memory_sizes;  ///< bytes, ascending
    int minor = 36;                                 ///< of the API server
    /// Of `placement_selectors`: made once, since the lists behind them can be long.
    std::vector<std::string> selectors = {};
};

/// The CEL expressions that a pod's lists of device types and uuids come to.
[[nodiscard]] std::vector<std::string> placement_selectors(const Placement& placement,
                                                           const Target& target);

/// Why a shape has no template.
struct TemplateFault {
    Code code;
    std::string message;
};

/// Why the target cannot give what one container asks for; nothing if it can. To be asked of each
/// container before shapes are joined, since a whole card beside it does not make a share possible.
[[nodiscard]] std::optional<TemplateFault> unsupported_share(const ClaimShape& shape,
                                                             const TemplateContext& context);

/// A template named by its content, or what is in the way.
[[nodiscard]] tl::expected<kube::ClaimTemplate, TemplateFault> build_template(
    const ClaimShape& shape, const TemplateContext& context);

/// What the names of our templates begin with, and how long they are.
inline constexpr std::string_view template_prefix = "drawbridge-";
inline constexpr std::size_t template_hash_characters = 20;

/// The name of a template: `drawbridge-` and 20 base32 characters of the hash of its content.
[[nodiscard]] std::string template_name(const kube::ClaimSpec& spec);

/// Whether the name of a template of ours is that of its content, in whatever form a server or a
/// person has written its quantities. One with parameters counts as such: their order is not kept.
[[nodiscard]] bool names_its_content(std::string_view name, const kube::ClaimSpec& content);

/// Whether a name has the form of a template of ours.
[[nodiscard]] bool is_own_template(std::string_view name);

}  // namespace drawbridge::translate
