#include "translate/build_template.hpp"

#include "base/hash.hpp"
#include "base/json.hpp"
#include "kube/cel.hpp"
#include "kube/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::translate {

namespace {

using Fault = tl::unexpected<TemplateFault>;

constexpr std::int64_t bytes_per_mib = 1 << 20;
constexpr std::size_t max_alternatives = 8;  // FirstAvailableDeviceRequestMaxSize
constexpr std::int64_t max_list_requests =
    6;  // above, an unsatisfiable search over N requests is too dear
constexpr char format_version = 1;

class Builder {
public:
    Builder(const ClaimShape& shape, const TemplateContext& context)
        : shape_(shape),
          context_(context),
          target_(context.settings.target),
          mode_(context.placement.mode) {}

    tl::expected<kube::ClaimTemplate, TemplateFault> build();

private:
    tl::expected<std::vector<kube::DeviceAlternative>, TemplateFault> alternatives() const;
    tl::expected<std::vector<kube::DeviceAlternative>, TemplateFault> sized_alternatives() const;
    kube::DeviceAlternative alternative(std::int64_t mib) const;
    kube::DeviceAlternative mode_alternative() const;
    bool by_count(std::size_t alternatives) const;
    void add_constraints(kube::ClaimSpec& spec) const;
    void add_config(kube::ClaimSpec& spec) const;

    const ClaimShape& shape_;
    const TemplateContext& context_;
    const Target& target_;
    const ModeTarget* mode_;
};

/// One way to serve the shape with `mib` of memory on a device; 0: all of it, so no figure is
/// named.
kube::DeviceAlternative Builder::alternative(std::int64_t mib) const {
    kube::DeviceAlternative result;
    result.device_class = target_.device_class;
    result.selectors = context_.selectors;
    if (!target_.shares) return result;
    if (shape_.memory.all && shape_.memory.mib > 0) {
        result.selectors.push_back(
            kube::CelSelectors(target_.driver)
                .capacity_at_least(target_.memory_capacity, shape_.memory.mib * bytes_per_mib));
    }
    const bool whole = shape_.is_whole_card() && !target_.slots_capacity.empty();
    if (whole) return result;  // the policy default of every capacity is the full value
    auto& capacity = result.capacity;
    capacity.emplace_back(target_.cores_capacity, std::to_string(shape_.cores));
    if (mib > 0) capacity.emplace_back(target_.memory_capacity, fmt::format("{}Mi", mib));
    if (!shape_.is_exclusive() && !target_.slots_capacity.empty()) {
        capacity.emplace_back(target_.slots_capacity, "1");
    }
    std::ranges::sort(capacity);
    return result;
}

/// Devices of another class (MIG): the memory figure is the least that the device must have.
kube::DeviceAlternative Builder::mode_alternative() const {
    kube::DeviceAlternative result;
    result.device_class = mode_->device_class;
    result.selectors = context_.selectors;
    if (!shape_.memory.all) {
        result.selectors.push_back(
            kube::CelSelectors(mode_->driver)
                .capacity_at_least(mode_->memory_capacity, shape_.memory.mib * bytes_per_mib));
    }
    return result;
}

/// One alternative a memory size, each with the share that the percentage comes to there.
tl::expected<std::vector<kube::DeviceAlternative>, TemplateFault> Builder::sized_alternatives()
    const {
    const auto& sizes = context_.memory_sizes;
    if (sizes.empty()) {
        return Fault({Code::memory_sizes_unknown,
                      "is a share of the memory of a card, and no memory size is known"});
    }
    if (sizes.size() > max_alternatives) {
        return Fault({Code::memory_sizes_too_many,
                      fmt::format("needs one alternative for each of {} memory sizes; {} are "
                                  "possible",
                                  sizes.size(), max_alternatives)});
    }
    std::vector<kube::DeviceAlternative> result;
    for (const std::int64_t size : sizes) {
        const std::int64_t mib = memory_on(shape_.memory, size / bytes_per_mib);
        if (mib == 0) {
            return Fault({Code::share_too_small,
                          fmt::format("comes to less than 1 MiB on a device of {} MiB",
                                      size / bytes_per_mib)});
        }
        if (mib > size / bytes_per_mib)
            continue;  // a figure beside the percentage that is too much here
        kube::DeviceAlternative option = alternative(mib);
        option.name = fmt::format("memory-{}", size / bytes_per_mib);
        option.selectors.insert(
            option.selectors.begin(),
            kube::CelSelectors(target_.driver).capacity_is(target_.memory_capacity, size));
        result.push_back(std::move(option));
    }
    if (result.empty()) return std::vector{alternative(shape_.memory.mib)};
    if (result.size() == 1) result.front().name.clear();
    return result;
}

tl::expected<std::vector<kube::DeviceAlternative>, TemplateFault> Builder::alternatives() const {
    if (mode_ != nullptr) return std::vector{mode_alternative()};
    if (shape_.memory.percent > 0) return sized_alternatives();
    return std::vector{alternative(shape_.memory.all ? 0 : shape_.memory.mib)};
}

/// Whether one request of `count: N` gives N different devices, and is not dearer in freedom than N
/// requests.
bool Builder::by_count(std::size_t alternatives) const {
    if (shape_.count == 1 || mode_ != nullptr || !target_.shares) return true;
    // R6 for a driver without slots: two shares of over half the compute cannot meet on one card
    if (target_.slots_capacity.empty() && shape_.cores > 50) return true;
    if (context_.minor < 36) return false;  // below, `count` may take one device N times
    if (target_.slots_capacity.empty()) return shape_.count > 8;
    return alternatives == 1 || shape_.count > max_list_requests;
}

void Builder::add_constraints(kube::ClaimSpec& spec) const {
    std::vector<std::string> names;
    for (const auto& request : spec.requests)
        names.push_back(request.name);
    if (names.size() > 1) {
        spec.constraints.push_back({names, {}, target_.driver + "/" + target_.uuid_attribute});
    }
    const bool numa = context_.placement.one_numa_node && shape_.count > 1 && mode_ == nullptr;
    if (numa && !target_.numa_attribute.empty()) {
        spec.constraints.push_back({names, target_.numa_attribute, {}});
    }
}

/// What a capacity cannot carry travels to the node agent as configuration (design.md decision 19).
void Builder::add_config(kube::ClaimSpec& spec) const {
    if (target_.priority != PriorityForm::share_config || mode_ != nullptr) return;
    const CorePolicy policy = context_.settings.policy.core_policy;
    if (!shape_.priority && policy == CorePolicy::standard) return;
    base::JsonWriter writer;
    writer.begin_object()
        .member("apiVersion", target_.driver + "/v1")
        .member("kind", "ShareConfig");
    if (policy != CorePolicy::standard) {
        writer.member("corePolicy", policy == CorePolicy::force ? "force" : "disable");
    }
    if (shape_.priority) writer.key("priority").integer(*shape_.priority);
    writer.end_object();
    kube::OpaqueConfig config{{}, target_.driver, writer.take()};
    for (const auto& request : spec.requests)
        config.requests.push_back(request.name);
    spec.config.push_back(std::move(config));
}

tl::expected<kube::ClaimTemplate, TemplateFault> Builder::build() {
    auto options = alternatives();
    if (!options) return tl::unexpected(options.error());
    const bool one = by_count(options->size());
    if (one) {
        for (auto& option : *options)
            option.count = shape_.count;
    }
    kube::ClaimSpec spec;
    const std::int64_t requests = one ? 1 : shape_.count;
    for (std::int64_t index = 0; index < requests; ++index) {
        spec.requests.push_back({requests == 1 ? "gpu" : fmt::format("gpu-{}", index), *options});
    }
    add_constraints(spec);
    add_config(spec);
    std::string name = template_name(spec);
    return kube::ClaimTemplate{std::move(name), std::move(spec)};
}

}  // namespace

std::vector<std::string> placement_selectors(const Placement& placement, const Target& target) {
    const kube::CelSelectors cel(placement.mode != nullptr ? placement.mode->driver
                                                           : target.driver);
    std::vector<std::string> selectors;
    const auto add_types = [&](const std::vector<std::string>& types, bool wanted) {
        if (types.empty()) return;
        // HAMi registers a card by its product name with this before it (legacy-requests.md 2.1)
        selectors.push_back(cel.contains_any(target.product_attribute, "NVIDIA-", types, wanted));
    };
    const auto add_uuids = [&](const std::vector<std::string>& uuids, bool wanted) {
        if (uuids.empty()) return;
        selectors.push_back(cel.one_of(target.uuid_attribute, uuids, wanted));
    };
    add_types(placement.use_types, true);
    add_types(placement.nouse_types, false);
    add_uuids(placement.use_uuids, true);
    add_uuids(placement.nouse_uuids, false);
    return selectors;
}

std::optional<TemplateFault> unsupported_share(const ClaimShape& shape,
                                               const TemplateContext& context) {
    if (const ModeTarget* mode = context.placement.mode) {
        const bool part = shape.cores > 0 && !shape.is_exclusive();
        if (shape.memory.percent == 0 && !part) return std::nullopt;
        return TemplateFault{
            Code::fraction_unsupported,
            fmt::format("is a share of a card, and the device class {} hands out whole devices",
                        mode->device_class)};
    }
    if (context.settings.target.shares || shape.is_whole_card()) return std::nullopt;
    return TemplateFault{
        Code::fraction_unsupported,
        fmt::format("is a share of a card, and the profile {} hands out whole cards",
                    context.settings.profile)};
}

/// A quantity as `Builder` writes it: memory in MiB, the rest as plain numbers.
static std::string own_form(const std::string& value) {
    const auto quantity = kube::parse_quantity(value);
    const auto number = quantity ? quantity->whole() : std::nullopt;
    if (!number) return value;
    const bool memory = *number >= bytes_per_mib && *number % bytes_per_mib == 0;
    return memory ? fmt::format("{}Mi", *number / bytes_per_mib) : std::to_string(*number);
}

tl::expected<kube::ClaimTemplate, TemplateFault> build_template(const ClaimShape& shape,
                                                                const TemplateContext& context) {
    return Builder(shape, context).build();
}

std::string template_name(const kube::ClaimSpec& spec) {
    const auto digest = base::sha256(format_version + kube::to_json(spec));
    return std::string(template_prefix) + base::base32_lower(digest, template_hash_characters);
}

bool names_its_content(std::string_view name, const kube::ClaimSpec& content) {
    if (!content.config.empty()) return true;
    kube::ClaimSpec own = content;
    for (auto& request : own.requests) {
        for (auto& alternative : request.alternatives) {
            for (auto& [capacity, value] : alternative.capacity)
                value = own_form(value);
        }
    }
    return template_name(own) == name;
}

bool is_own_template(std::string_view name) {
    if (!name.starts_with(template_prefix) ||
        name.size() != template_prefix.size() + template_hash_characters)
        return false;
    return std::ranges::all_of(name.substr(template_prefix.size()), [](char letter) {
        return (letter >= 'a' && letter <= 'z') || (letter >= '2' && letter <= '7');
    });
}

}  // namespace drawbridge::translate
