#include "translate/settings_rules.hpp"

#include "kube/name_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace drawbridge::translate {
namespace {

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view digits = "0123456789";

bool is_letter(char c) {
    return letters.find(c) != std::string_view::npos;
}

bool is_letter_or_digit(char c) {
    return is_letter(c) || digits.find(c) != std::string_view::npos;
}

/// Either empty, or what the other rule says.
template <bool (*Rule)(std::string_view)>
bool is_empty_or(std::string_view text) {
    return text.empty() || Rule(text);
}

/// As IsExtendedResourceName of Kubernetes: stripping anything else from a pod would take its CPU
/// away, or hugepages.
bool is_extended_resource(std::string_view text) {
    return text.find('/') != std::string_view::npos &&
           text.find("kubernetes.io/") == std::string_view::npos &&
           text.substr(0, 9) != "requests." && kube::is_qualified_name(text);
}

/// resource.k8s.io/v1: a driver's name is a DNS subdomain of at most 63 characters.
bool is_driver(std::string_view text) {
    return text.size() <= 63 && kube::is_dns_subdomain(text);
}

/// resource.k8s.io/v1: a C identifier of at most 32 characters.
bool is_identifier(std::string_view text) {
    return !text.empty() && text.size() <= 32 && (is_letter(text[0]) || text[0] == '_') &&
           std::all_of(text.begin(), text.end(),
                       [](char c) { return is_letter_or_digit(c) || c == '_'; });
}

bool is_full_attribute(std::string_view text) {
    const auto slash = text.find('/');
    return slash != std::string_view::npos && is_driver(text.substr(0, slash)) &&
           is_identifier(text.substr(slash + 1));
}

/// A label's value is empty or looks like a name without prefix.
bool is_label_value(std::string_view text) {
    return text.empty() ||
           (text.find('/') == std::string_view::npos && kube::is_qualified_name(text));
}

bool is_device_mode(std::string_view text) {
    return text == "mig" || text == "mps";
}

bool is_kind(std::string_view text) {
    return !text.empty() && text.size() <= 63 && is_letter(text[0]) &&
           std::all_of(text.begin(), text.end(), is_letter_or_digit);
}

/// A JSON pointer that is not the whole document (RFC 6901).
bool is_pointer(std::string_view text) {
    if (text.size() < 2 || text.size() > 1024 || text[0] != '/') return false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '~' && (i + 1 == text.size() || (text[i + 1] != '0' && text[i + 1] != '1')))
            return false;
    }
    return true;
}

struct NamedText {
    std::string_view key;
    std::string_view text;
};

/// Two keys of one section that name the same thing; empty names name nothing.
void check_distinct(std::string_view place, std::span<const NamedText> names, Problems& problems) {
    std::map<std::string_view, std::string_view> first_with;
    for (const auto& [key, text] : names) {
        if (text.empty()) continue;
        const auto [first, is_new] = first_with.emplace(text, key);
        if (!is_new) {
            problems.add(fmt::format("{}/{}", place, key),
                         fmt::format("{} and {} are both {}; each needs a name of its own",
                                     first->second, key, shown(text)));
        }
    }
}

void check_names(const Settings& settings, std::string_view place, Problems& problems) {
    const ResourceNames& resources = settings.resources;
    check_distinct(fmt::format("{}/resources", place),
                   std::array<NamedText, 5>{{{"count", resources.count},
                                             {"memory", resources.memory},
                                             {"memoryPercentage", resources.memory_percentage},
                                             {"cores", resources.cores},
                                             {"priority", resources.priority}}},
                   problems);
    const AnnotationNames& annotations = settings.annotations;
    check_distinct(fmt::format("{}/annotations", place),
                   std::array<NamedText, 9>{{{"useType", annotations.use_type},
                                             {"nouseType", annotations.nouse_type},
                                             {"useUuid", annotations.use_uuid},
                                             {"nouseUuid", annotations.nouse_uuid},
                                             {"numaBind", annotations.numa_bind},
                                             {"mode", annotations.mode},
                                             {"nodePolicy", annotations.node_policy},
                                             {"devicePolicy", annotations.device_policy},
                                             {"scoringWeights", annotations.scoring_weights}}},
                   problems);
    const Target& target = settings.target;
    check_distinct(fmt::format("{}/target", place),
                   std::array<NamedText, 3>{{{"memoryCapacity", target.memory_capacity},
                                             {"coresCapacity", target.cores_capacity},
                                             {"slotsCapacity", target.slots_capacity}}},
                   problems);
}

}  // namespace

namespace rules {

const TextRule resource_name{"the name of an extended resource, like nvidia.com/gpu",
                             is_extended_resource};
const TextRule resource_name_or_none{
    "the name of an extended resource, like nvidia.com/gpumem, or empty",
    is_empty_or<is_extended_resource>};
const TextRule annotation_name_or_none{
    "the name of an annotation, like nvidia.com/use-gputype, or empty",
    is_empty_or<kube::is_qualified_name>};
const TextRule driver_name{"a DNS subdomain of at most 63 characters, like gpu.example.com",
                           is_driver};
const TextRule object_name{"a DNS subdomain, like gpu.example.com", kube::is_dns_subdomain};
const TextRule object_name_or_none{"a DNS subdomain, or empty",
                                   is_empty_or<kube::is_dns_subdomain>};
const TextRule identifier{"an identifier of at most 32 letters, digits and _", is_identifier};
const TextRule identifier_or_none{"an identifier of at most 32 letters, digits and _, or empty",
                                  is_empty_or<is_identifier>};
const TextRule full_attribute_or_none{
    "an attribute with its domain, like gpu.example.com/numaNode, or empty",
    is_empty_or<is_full_attribute>};
const TextRule label_name{"the name of a label, like hami.io/webhook", kube::is_qualified_name};
const TextRule label_value{"the value of a label: at most 63 letters, digits, -, _ and .",
                           is_label_value};
const TextRule device_mode{"mig or mps", is_device_mode};
const TextRule api_group_or_core{
    "an API group without version, like batch.volcano.sh, or empty for the core group",
    is_empty_or<kube::is_dns_subdomain>};
const TextRule kind_name{"the name of a kind, like PyTorchJob", is_kind};
const TextRule pod_template_path{"a JSON pointer, like /spec/template; * stands for each element",
                                 is_pointer};

}  // namespace rules

void check_together(const Settings& settings, std::string_view place, Problems& problems) {
    check_names(settings, place, problems);
    const Target& target = settings.target;
    if (target.shares && (target.memory_capacity.empty() || target.cores_capacity.empty())) {
        problems.add(fmt::format("{}/target/shares", place),
                     "a driver that shares cards needs memoryCapacity and coresCapacity; write "
                     "shares: false for one "
                     "that hands out whole cards");
    }
    const Policy& policy = settings.policy;
    if (policy.warn_below_mib > policy.max_memory_mib) {
        problems.add(fmt::format("{}/policy/warnBelowMiB", place),
                     fmt::format("{} is above maxMemoryMiB, which is {}", policy.warn_below_mib,
                                 policy.max_memory_mib));
    }
    if (policy.legacy_scheduler == policy.scheduler) {
        problems.add(
            fmt::format("{}/policy/scheduler", place),
            fmt::format(
                "{} is the legacy scheduler as well; name the one that handles device claims",
                shown(policy.scheduler)));
    }
}

}  // namespace drawbridge::translate
