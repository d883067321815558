#include "translate/match_conditions.hpp"

#include "kube/cel.hpp"
#include "translate/build_template.hpp"
#include "translate/legacy_request.hpp"
#include "translate/original.hpp"

#include <fmt/format.h>

namespace drawbridge::translate {

namespace {

using kube::cel_quote;

/// A pod whose entries of resourceClaims name a template of ours.
std::string names_our_template(std::string_view pod) {
    return fmt::format(
        "(has({0}.spec.resourceClaims) && {0}.spec.resourceClaims.exists(c, "
        "has(c.resourceClaimTemplateName) && c.resourceClaimTemplateName.startsWith({1}) && "
        "size(c.resourceClaimTemplateName) == {2}))",
        pod, cel_quote(template_prefix), template_prefix.size() + template_hash_characters);
}

/// A container of any kind with one of the names in its limits or requests.
std::string asks_for(const std::vector<std::string_view>& names) {
    std::string list;
    for (const std::string_view name : names)
        list += (list.empty() ? "" : ", ") + cel_quote(name);
    const auto among = [&list](std::string_view map) {
        return fmt::format("(has(c.resources.{0}) && c.resources.{0}.exists(k, k in [{1}]))", map,
                           list);
    };
    const std::string some = fmt::format("exists(c, has(c.resources) && ({} || {}))",
                                         among("limits"), among("requests"));
    return fmt::format(
        "object.spec.containers.{0} || "
        "(has(object.spec.initContainers) && object.spec.initContainers.{0})",
        some);
}

/// What may make the core change or refuse a new pod.
std::string concerns_us(const Settings& settings) {
    // The variable goes into every container that has no GPU, so into every pod.
    if (settings.policy.hide_gpus_from_others) return "true";
    std::string any = names_our_template("object");
    if (!settings.policy.legacy_scheduler.empty()) {
        any = fmt::format("(has(object.spec.schedulerName) && object.spec.schedulerName == {}) || ",
                          cel_quote(settings.policy.legacy_scheduler)) +
              any;
    }
    return any + " || " + asks_for(legacy_names(settings.resources));
}

}  // namespace

std::vector<MatchCondition> match_conditions(const Settings& settings) {
    std::vector<MatchCondition> all;
    all.push_back({"new-and-ours", "request.operation != 'CREATE' || " + concerns_us(settings)});
    // An update can only put back what was translated before (translate_update.hpp).
    all.push_back(
        {"old-and-translated",
         fmt::format("request.operation != 'UPDATE' || (has(oldObject.metadata.annotations) "
                     "&& {} in oldObject.metadata.annotations && {})",
                     cel_quote(original_annotation), names_our_template("oldObject"))});
    // A mirror pod stands for one that runs already.
    all.push_back({"no-mirror",
                   "!has(object.metadata.annotations) || "
                   "!('kubernetes.io/config.mirror' in object.metadata.annotations)"});
    std::size_t number = 0;
    for (const auto& [label, value] : settings.policy.opt_out_labels) {
        const std::string key = cel_quote(label);
        all.push_back(
            {fmt::format("not-opted-out-{}", ++number),
             fmt::format("!has(object.metadata.labels) || !({0} in object.metadata.labels) "
                         "|| object.metadata.labels[{0}] != {1}",
                         key, cel_quote(value))});
    }
    return all;
}

}  // namespace drawbridge::translate
