#include "translate/settings_hami.hpp"

#include "translate/settings_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace drawbridge::translate {
namespace {

/// HAMi reads a number that is too small as 0 ("none") or 1 ("no factor"): legacy-requests.md 1.1.
constexpr IntegerRule lenient(IntegerRule rule) {
    return {-2147483648, rule.max};
}

/// HAMi's nodes switch the limit off with `disableCoreLimit`, where its webhook has not given the
/// container a policy.
void read_core_policy(base::JsonView nvidia, FieldReader& reader, CorePolicy& policy) {
    if (!nvidia["gpuCorePolicy"].string_or("none").empty()) {
        reader.choice("gpuCorePolicy", policy, choices::core_policy);
    }
    bool limit_disabled = false;
    reader.boolean("disableCoreLimit", limit_disabled);
    if (limit_disabled && policy == CorePolicy::standard) policy = CorePolicy::disable;
}

void read_opt_outs(base::JsonView selector, const std::string& place, Policy& policy,
                   Problems& problems) {
    if (!selector["matchLabels"].members().empty()) {
        problems.add(place + "/matchLabels",
                     "cannot be carried over, only opt-outs (matchExpressions with operator NotIn) "
                     "can; choose "
                     "namespaces with the label drawbridge.dev/mode instead");
    }
    const base::JsonView expressions = selector["matchExpressions"];
    for (std::size_t i = 0; i < expressions.size(); ++i) {
        const base::JsonView expression = expressions.at(i);
        const std::string here = fmt::format("{}/matchExpressions/{}", place, i);
        const std::string_view key = expression["key"].string_or("");
        if (expression["operator"].string_or("") != "NotIn") {
            problems.add(here,
                         fmt::format("operator {} on {} cannot be carried over, only NotIn can",
                                     shown(expression["operator"].string_or("")), shown(key)));
            continue;
        }
        const base::JsonView values = expression["values"];
        for (std::size_t j = 0; j < values.size(); ++j) {
            const std::string_view value = values.at(j).string_or("");
            if (!rules::label_name.holds(key) || !values.at(j).is_string() ||
                !rules::label_value.holds(value)) {
                problems.add(here, fmt::format("{} with value {} is no label", shown(key),
                                               shown(values.at(j).to_json())));
                continue;
            }
            policy.opt_out_labels.emplace(key, value);
        }
    }
}

}  // namespace

void apply_hami_device_config(base::JsonView document, std::string_view place, Settings& settings,
                              Problems& problems) {
    const base::JsonView nvidia = document["nvidia"];
    const std::string here = fmt::format("{}/nvidia", place);
    if (nvidia.is_absent()) {
        problems.add(here, "is missing; only HAMi's configuration of NVIDIA devices can be read");
        return;
    }
    if (!nvidia.is_object()) {
        problems.add(here, "must be an object");
        return;
    }
    FieldReader reader(nvidia, here, problems);
    reader.text("resourceCountName", settings.resources.count, rules::resource_name);
    reader.text("resourceMemoryName", settings.resources.memory, rules::resource_name_or_none);
    reader.text("resourceMemoryPercentageName", settings.resources.memory_percentage,
                rules::resource_name_or_none);
    reader.text("resourceCoreName", settings.resources.cores, rules::resource_name_or_none);
    reader.text("resourcePriorityName", settings.resources.priority, rules::resource_name_or_none);
    Defaults& defaults = settings.defaults;
    reader.integer("defaultGPUNum", defaults.count, lenient(rules::device_count));
    reader.integer("defaultMemory", defaults.memory_mib, rules::mebibytes);
    reader.integer("defaultCores", defaults.cores, rules::percent);
    // Volcano's device plugin, which has HAMi's file, calls it so.
    reader.integer("gpuMemoryFactor", defaults.memory_factor, lenient(rules::memory_factor));
    reader.integer("memoryFactor", defaults.memory_factor, lenient(rules::memory_factor));
    defaults.count = std::max<std::int64_t>(defaults.count, 0);
    defaults.memory_factor = std::max<std::int64_t>(defaults.memory_factor, 1);
    reader.boolean("overwriteEnv", settings.policy.hide_gpus_from_others);
    reader.text("runtimeClassName", settings.policy.runtime_class, rules::object_name_or_none);
    read_core_policy(nvidia, reader, settings.policy.core_policy);
}

void apply_hami_webhook(base::JsonView document, std::string_view place, Settings& settings,
                        Problems& problems) {
    const base::JsonView webhooks = document["webhooks"];
    if (webhooks.size() != 1) {
        problems.add(
            fmt::format("{}/webhooks", place),
            fmt::format("must list one webhook, found {}; keep HAMi's alone", webhooks.size()));
        return;
    }
    const base::JsonView webhook = webhooks.at(0);
    const std::string here = fmt::format("{}/webhooks/0", place);
    const std::string_view name = webhook["name"].string_or("");
    if (name.find("hami") == std::string_view::npos) {
        problems.add(here + "/name",
                     fmt::format("must be HAMi's webhook, vgpu.hami.io, found \"{}\"", name));
        return;
    }
    if (webhook["matchConditions"].size() > 0) {
        problems.add(here + "/matchConditions",
                     "cannot be carried over, only opt-outs by label can");
    }
    settings.policy.opt_out_labels.clear();
    for (const std::string_view selector : {"namespaceSelector", "objectSelector"}) {
        read_opt_outs(webhook[selector], fmt::format("{}/{}", here, selector), settings.policy,
                      problems);
    }
}

}  // namespace drawbridge::translate
