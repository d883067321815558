#include "agent/claim/share_config.hpp"

#include "agent/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace drawbridge::agent {
namespace {

constexpr std::array<std::string_view, 3> policies = {"disable", "default", "force"};
constexpr std::string_view group = "gpu.drawbridge.dev/";

/// The number N of `gpu.drawbridge.dev/vN`.
std::optional<int> version_of(std::string_view api_version) {
    if (!api_version.starts_with(group)) return std::nullopt;
    std::string_view text = api_version.substr(group.size());
    if (!text.starts_with('v')) return std::nullopt;
    text.remove_prefix(1);
    constexpr std::size_t max_digits = 4;
    if (text.empty() || text.size() > max_digits || text.front() == '0') return std::nullopt;
    int number = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return std::nullopt;
        number = 10 * number + (c - '0');
    }
    return number;
}

/// The field that is set in either, or the greater of both.
template <class T>
std::optional<T> stricter(const std::optional<T>& bound, const std::optional<T>& wish) {
    if (!bound || !wish) return bound ? bound : wish;
    return std::max(*bound, *wish);
}

}  // namespace

std::string_view core_policy_name(CorePolicy policy) {
    return policies[static_cast<std::size_t>(policy)];
}

std::optional<CorePolicy> core_policy_from_name(std::string_view name) {
    const auto* const found = std::ranges::find(policies, name);
    if (found == policies.end()) return std::nullopt;
    return static_cast<CorePolicy>(found - policies.begin());
}

base::Result<ReadConfig> read_share_config(base::JsonView parameters) {
    JsonReader reader;
    const Spot root{parameters};
    ReadConfig read;
    const auto version = version_of(reader.text(root["apiVersion"]));
    if (!version) reader.refuse(root["apiVersion"], "gpu.drawbridge.dev/v1 is expected");
    if (parameters["kind"].as_string() != "ShareConfig")
        reader.refuse(root["kind"], "ShareConfig is expected");
    if (version == 1) {
        reader.members(root, {"apiVersion", "kind", "priority", "corePolicy"});
    } else {
        for (const base::JsonMember& member : parameters.members()) {
            if (member.key == "apiVersion" || member.key == "kind" || member.key == "priority" ||
                member.key == "corePolicy")
                continue;
            read.warnings.push_back(
                fmt::format("/{} is not known to this agent", base::escape_pointer(member.key)));
        }
    }
    if (!root["priority"].is_absent())
        read.config.priority = reader.whole(root["priority"], {0, 1});
    const Spot policy = root["corePolicy"];
    if (!policy.is_absent()) {
        read.config.core_policy = core_policy_from_name(reader.text(policy));
        if (!read.config.core_policy)
            reader.refuse(policy, "default, force or disable is expected");
    }
    if (!reader.ok()) return reader.error();
    return read;
}

ShareConfig bounded(const ShareConfig& bound, const ShareConfig& wish) {
    return {.priority = stricter(bound.priority, wish.priority),
            .core_policy = stricter(bound.core_policy, wish.core_policy)};
}

ShareConfig overlaid(const ShareConfig& earlier, const ShareConfig& later) {
    return {.priority = later.priority ? later.priority : earlier.priority,
            .core_policy = later.core_policy ? later.core_policy : earlier.core_policy};
}

}  // namespace drawbridge::agent
