#pragma once
// The one list of the keys of a settings document; reading, writing and the reference are made from
// it.

#include "translate/settings.hpp"
#include "translate/settings_rules.hpp"

#include <array>
#include <string_view>

namespace drawbridge::translate {

inline constexpr std::string_view settings_api_version = "drawbridge.dev/v1";
inline constexpr std::string_view settings_kind = "Settings";

/// One word of a setting that has a fixed set of them.
template <class T>
struct Choice {
    std::string_view word;
    T value;
};

namespace choices {

inline constexpr std::array privileged = {Choice<Deny>{"deny", Deny::yes},
                                          Choice<Deny>{"allow", Deny::no}};
inline constexpr std::array old_server = {Choice<OldServer>{"deny", OldServer::deny},
                                          Choice<OldServer>{"passthrough", OldServer::passthrough}};
inline constexpr std::array plain_count = {Choice<PlainCount>{"translate", PlainCount::translate},
                                           Choice<PlainCount>{"leave", PlainCount::leave}};
inline constexpr std::array mutex = {Choice<Mutex>{"wholeCard", Mutex::whole_card},
                                     Choice<Mutex>{"ignore", Mutex::ignore}};
inline constexpr std::array core_policy = {Choice<CorePolicy>{"default", CorePolicy::standard},
                                           Choice<CorePolicy>{"force", CorePolicy::force},
                                           Choice<CorePolicy>{"disable", CorePolicy::disable}};
inline constexpr std::array priority = {
    Choice<PriorityForm>{"shareConfig", PriorityForm::share_config},
    Choice<PriorityForm>{"environment", PriorityForm::environment}};
inline constexpr std::array exclusive_memory = {
    Choice<ExclusiveMemory>{"keep", ExclusiveMemory::keep},
    Choice<ExclusiveMemory>{"drop", ExclusiveMemory::drop}};

}  // namespace choices

template <class Visitor, class Names>
void visit_resources(Visitor& visit, Names& resources) {
    visit.text("count", resources.count, rules::resource_name);
    visit.text("memory", resources.memory, rules::resource_name_or_none);
    visit.text("memoryPercentage", resources.memory_percentage, rules::resource_name_or_none);
    visit.text("cores", resources.cores, rules::resource_name_or_none);
    visit.text("priority", resources.priority, rules::resource_name_or_none);
}

template <class Visitor, class Names>
void visit_annotations(Visitor& visit, Names& annotations) {
    const TextRule& rule = rules::annotation_name_or_none;
    visit.text("useType", annotations.use_type, rule);
    visit.text("nouseType", annotations.nouse_type, rule);
    visit.text("useUuid", annotations.use_uuid, rule);
    visit.text("nouseUuid", annotations.nouse_uuid, rule);
    visit.text("numaBind", annotations.numa_bind, rule);
    visit.text("mode", annotations.mode, rule);
    visit.text("nodePolicy", annotations.node_policy, rule);
    visit.text("devicePolicy", annotations.device_policy, rule);
    visit.text("scoringWeights", annotations.scoring_weights, rule);
}

template <class Visitor, class Values>
void visit_defaults(Visitor& visit, Values& defaults) {
    visit.integer("count", defaults.count, rules::device_count);
    visit.integer("memoryMiB", defaults.memory_mib, rules::mebibytes);
    visit.integer("cores", defaults.cores, rules::percent);
    visit.integer("memoryFactor", defaults.memory_factor, rules::memory_factor);
}

template <class Visitor, class Values>
void visit_target(Visitor& visit, Values& target) {
    visit.text("driver", target.driver, rules::driver_name);
    visit.text("deviceClass", target.device_class, rules::object_name);
    visit.text("memoryCapacity", target.memory_capacity, rules::identifier_or_none);
    visit.text("coresCapacity", target.cores_capacity, rules::identifier_or_none);
    visit.text("slotsCapacity", target.slots_capacity, rules::identifier_or_none);
    visit.text("uuidAttribute", target.uuid_attribute, rules::identifier);
    visit.text("productAttribute", target.product_attribute, rules::identifier);
    visit.text("numaAttribute", target.numa_attribute, rules::full_attribute_or_none);
    visit.choice("priority", target.priority, choices::priority);
    visit.choice("exclusiveMemory", target.exclusive_memory, choices::exclusive_memory);
    visit.boolean("shares", target.shares);
    visit.modes("modeClasses", target.mode_classes);
}

template <class Visitor, class Values>
void visit_mode(Visitor& visit, Values& mode) {
    visit.text("deviceClass", mode.device_class, rules::object_name);
    visit.text("driver", mode.driver, rules::driver_name);
    visit.text("memoryCapacity", mode.memory_capacity, rules::identifier);
}

template <class Visitor, class Values>
void visit_policy(Visitor& visit, Values& policy) {
    visit.choice("privileged", policy.privileged, choices::privileged);
    visit.choice("oldServer", policy.old_server, choices::old_server);
    visit.choice("plainCount", policy.plain_count, choices::plain_count);
    visit.choice("mutex", policy.mutex, choices::mutex);
    visit.choice("corePolicy", policy.core_policy, choices::core_policy);
    visit.boolean("hideGpusFromOthers", policy.hide_gpus_from_others);
    visit.text("runtimeClass", policy.runtime_class, rules::object_name_or_none);
    visit.integer("maxMemoryMiB", policy.max_memory_mib, rules::mebibytes_of_a_card);
    visit.integer("warnBelowMiB", policy.warn_below_mib, rules::mebibytes);
    visit.text("legacyScheduler", policy.legacy_scheduler, rules::object_name_or_none);
    visit.text("scheduler", policy.scheduler, rules::object_name);
    visit.texts("capableSchedulers", policy.capable_schedulers, rules::object_name);
    visit.labels("optOutLabels", policy.opt_out_labels);
}

/// Shows `visit` every field of `settings` but the profile's name, in the order of the document.
/// `Config` is `Settings` or `const Settings`. A visitor has `section`, `text`, `texts`,
/// `modes`, `integer`, `boolean`, `choice`, `labels`, `sizes` and `workloads`.
template <class Visitor, class Config>
void visit_fields(Visitor& visit, Config& settings) {
    visit.section("resources", [&] { visit_resources(visit, settings.resources); });
    visit.section("annotations", [&] { visit_annotations(visit, settings.annotations); });
    visit.section("defaults", [&] { visit_defaults(visit, settings.defaults); });
    visit.section("target", [&] { visit_target(visit, settings.target); });
    visit.section("policy", [&] { visit_policy(visit, settings.policy); });
    visit.sizes("memorySizes", settings.memory_sizes);
    visit.workloads("workloads", settings.workloads);
}

}  // namespace drawbridge::translate
