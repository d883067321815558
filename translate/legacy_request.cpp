#include "translate/legacy_request.hpp"

#include "base/text.hpp"
#include "kube/quantity.hpp"
#include "translate/figure_advice.hpp"
#include "translate/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace drawbridge::translate {

namespace {

constexpr std::int64_t max_devices = 32;  // AllocationResultsMaxSize: results of one claim
constexpr std::int64_t max_figure = std::numeric_limits<std::int32_t>::max();  // HAMi drops more

/// One legacy name as it stands in a container.
struct Figure {
    std::string_view name;
    std::string text;  ///< the limit as written
    bool present = false;
    bool readable = true;  ///< what stands there could be read (or nothing does)
    std::int64_t value = 0;
};

class Reader {
public:
    Reader(const ContainerView& container, const Settings& settings, Diagnostics& diagnostics)
        : container_(container),
          settings_(settings),
          diagnostics_(diagnostics),
          limits_(container.json["resources"]["limits"]),
          requests_(container.json["resources"]["requests"]) {}

    LegacyRequest read();

private:
    Figure figure(std::string_view name);
    std::optional<std::int64_t> whole(std::string_view name, std::string_view list,
                                      base::JsonView value, std::string& text);
    void deny_unreadable(std::string_view name, std::string_view list, const std::string& text);
    void compare_request(const Figure& limit);
    void default_count(Figure& count, bool anything_else);
    void check_count(const Figure& count);
    void check_percentage(Figure& percentage);
    std::int64_t memory_mib(const Figure& memory);
    void deny_memory(const Figure& memory);
    std::int64_t memory_factor() const {
        return std::max<std::int64_t>(settings_.defaults.memory_factor, 1);
    }
    std::string memory_unit() const;
    std::string memory_advice() const;
    std::string figure_for(std::int64_t mebibytes, std::string_view text) const;
    std::int64_t cores(const Figure& figure);
    void check_priority(const Figure& priority);
    bool is_exclusive(const Figure& memory, const Figure& percentage) const;
    [[nodiscard]] bool deny_missing_limits(const Figure& count);
    void warn_without_device(const Figure& count, const Figure& priority, bool anything_else);
    MemoryDemand memory_demand(const Figure& memory, const Figure& percentage);
    void note(Code code, const Figure& figure, std::string message, std::string fix = {}) {
        report(diagnostics_, code, subject(figure.name, "limits", figure.text), std::move(message),
               std::move(fix));
    }
    Subject subject(std::string_view name, std::string_view list, std::string value) const {
        return {container_.path / "resources" / list / name, container_.name, std::string(name),
                std::move(value)};
    }
    std::string who() const { return quoted_container(container_); }

    const ContainerView& container_;
    const Settings& settings_;
    Diagnostics& diagnostics_;
    base::JsonView limits_;
    base::JsonView requests_;
};

/// What is no quantity; mostly it has a unit that Kubernetes does not know.
void Reader::deny_unreadable(std::string_view name, std::string_view list,
                             const std::string& text) {
    std::string message = fmt::format("{}: {} is {}, which is no quantity", who(), name,
                                      text.empty() ? "\"\"" : text);
    std::string fix;
    if (name == settings_.resources.memory) {
        message += "; the unit is " + memory_unit();
        const auto meant = mebibytes_meant(text);
        fix = meant ? figure_for(*meant, text) : memory_advice();
    } else if (name == settings_.resources.memory_percentage || name == settings_.resources.cores) {
        const std::string meant = percentage_meant(text);
        if (!meant.empty()) fix = "write " + meant;
    }
    report(diagnostics_, Code::not_a_quantity, subject(name, list, text), std::move(message),
           std::move(fix));
}

/// A whole, non-negative value; what else stands there is reported. `null` reads as 0, as in
/// Kubernetes.
std::optional<std::int64_t> Reader::whole(std::string_view name, std::string_view list,
                                          base::JsonView value, std::string& text) {
    const auto scalar = value.is_absent() ? std::string("0") : value.scalar_text();
    text = base::shortened(scalar.value_or(value.to_json()), 64);
    const auto quantity = scalar ? kube::parse_quantity(*scalar)
                                 : base::fail(base::ErrorKind::invalid_input, "not a scalar");
    if (!quantity) {
        deny_unreadable(name, list, text);
        return std::nullopt;
    }
    if (quantity->is_negative() && name != settings_.resources.memory_percentage) {
        report(diagnostics_, Code::negative_value, subject(name, list, text),
               fmt::format("{}: {} is {}, which is negative", who(), name, text));
        return std::nullopt;
    }
    const auto number = quantity->whole();
    if (!number) {
        const bool large = *quantity > kube::Quantity(std::numeric_limits<std::int64_t>::max());
        report(diagnostics_, Code::not_whole, subject(name, list, text),
               fmt::format("{}: {} is {}; it must be a whole number{}", who(), name, text,
                           large ? " below 2^63" : ""));
    }
    return number;
}

Figure Reader::figure(std::string_view name) {
    Figure result{.name = name, .text = {}};
    if (name.empty()) return result;
    const base::JsonView limit = limits_[name];
    if (limit.is_missing()) return result;
    result.present = true;
    const auto value = whole(name, "limits", limit, result.text);
    result.readable = value.has_value();
    if (value) {
        result.value = *value;
        compare_request(result);
    }
    return result;
}

/// Kubernetes wants limit and request of an extended resource equal, and looks only after the names
/// are gone.
void Reader::compare_request(const Figure& limit) {
    const base::JsonView request = requests_[limit.name];
    if (request.is_missing()) return;
    std::string text;
    const auto value = whole(limit.name, "requests", request, text);
    if (!value || *value == limit.value) return;
    report(diagnostics_, Code::request_differs, subject(limit.name, "requests", text),
           fmt::format("{}: {} request {} and limit {} differ", who(), limit.name, text,
                       limit.text.empty() ? std::to_string(limit.value) : limit.text));
}

/// HAMi's webhook puts the default count into the limits where another resource stands there (1.3
/// W4).
void Reader::default_count(Figure& count, bool anything_else) {
    if (count.present || !anything_else) return;
    if (settings_.defaults.count == 0) {
        note(Code::count_missing, count,
             fmt::format("{}: GPU memory or compute without {}", who(), count.name),
             fmt::format("add {}: 1", count.name));
        return;
    }
    count.present = true;
    count.value = settings_.defaults.count;
    compare_request(count);
}

void Reader::check_count(const Figure& count) {
    if (count.value <= max_devices) return;
    note(Code::count_range, count,
         fmt::format("{}: {} is {}; a claim holds at most {} devices", who(), count.name,
                     count.text, max_devices));
}

void Reader::check_percentage(Figure& percentage) {
    if (percentage.value >= 0 && percentage.value <= 100) return;
    note(Code::percentage_range, percentage,
         fmt::format("{}: {} is {}; a percentage lies between 0 and 100", who(), percentage.name,
                     percentage.text));
    percentage.value = 0;
}

/// A figure that no card can hold was nearly always meant as bytes: say so, and what it comes to in
/// MiB. An API server writes 5000000, a slip of some zeros, as `5M`: only `Mi` and the like, or
/// what makes a share in bytes, are bytes.
void Reader::deny_memory(const Figure& memory) {
    constexpr std::int64_t mib = 1 << 20;
    constexpr std::int64_t least_share = 64;
    const bool bytes = memory.text.ends_with('i') || memory.value / mib >= least_share;
    const std::int64_t most = std::min(settings_.policy.max_memory_mib, max_figure);
    if (!bytes || memory.value < mib || memory.value / mib > most) {
        note(Code::memory_too_large, memory,
             fmt::format("{}: {} is {}, more than any card has; the unit is {}", who(), memory.name,
                         memory.text, memory_unit()),
             memory_advice());
        return;
    }
    const std::int64_t mebibytes = memory.value / mib + (memory.value % mib != 0);
    note(Code::memory_unit, memory,
         fmt::format("{}: {} is {}; the unit is {}, not bytes", who(), memory.name, memory.text,
                     memory_unit()),
         figure_for(mebibytes, memory.text));
}

/// The figure that comes to so many MiB on this site.
std::string Reader::figure_for(std::int64_t mebibytes, std::string_view text) const {
    return fmt::format("write {} for {}", std::max<std::int64_t>(mebibytes / memory_factor(), 1),
                       text);
}

std::string Reader::memory_unit() const {
    const std::int64_t factor = memory_factor();
    return factor == 1 ? "MiB" : fmt::format("{} MiB (memoryFactor of this site)", factor);
}

/// How to write 8 GiB where the site's unit is not MiB; empty (the code's own advice) where it is.
std::string Reader::memory_advice() const {
    constexpr std::int64_t eight_gib = 8192;
    const std::int64_t factor = memory_factor();
    if (factor == 1) return {};
    return fmt::format("write the memory in units of {} MiB, for example {} for {} MiB", factor,
                       std::max<std::int64_t>(eight_gib / factor, 1),
                       std::max<std::int64_t>(eight_gib / factor, 1) * factor);
}

std::int64_t Reader::memory_mib(const Figure& memory) {
    const std::int64_t factor = memory_factor();
    const std::int64_t most = std::min(settings_.policy.max_memory_mib, max_figure);
    if (memory.value > most / factor) {
        deny_memory(memory);
        return 0;
    }
    const std::int64_t mib = memory.value * factor;
    if (mib > 0 && mib < settings_.policy.warn_below_mib) {
        note(Code::memory_small, memory,
             fmt::format("{}: {} is {}, which is {} MiB", who(), memory.name, memory.text, mib),
             memory_advice());
    }
    return mib;
}

std::int64_t Reader::cores(const Figure& figure) {
    if (figure.value <= 100) return figure.value;
    note(Code::cores_clamped, figure,
         fmt::format("{}: {} is {}, taken as 100", who(), figure.name, figure.text));
    return 100;
}

void Reader::check_priority(const Figure& priority) {
    if (!priority.present || priority.value <= 1) return;
    note(Code::priority_range, priority,
         fmt::format("{}: {} is {}; it must be 0 or 1", who(), priority.name, priority.text));
}

/// Whether HAMi's webhook writes 100 cores where none are named (1.3 W5): it looks at keys, not at
/// the memory's value.
bool Reader::is_exclusive(const Figure& memory, const Figure& percentage) const {
    if (percentage.present) return percentage.value == 100;
    return settings_.resources.memory.empty() || !memory.present;
}

/// A request without a limit; the count is compared with the default where that was put into the
/// limits. Whether there is one that means a device, as all do but the priority.
bool Reader::deny_missing_limits(const Figure& count) {
    bool device = false;
    for (const std::string_view name : legacy_names(settings_.resources)) {
        if (requests_[name].is_missing() || !limits_[name].is_missing()) continue;
        if (name == settings_.resources.count && count.present) continue;
        device = device || name != settings_.resources.priority;
        std::string text;
        if (!whole(name, "requests", requests_[name], text)) continue;
        report(diagnostics_, Code::limit_missing, subject(name, "requests", text),
               fmt::format("{}: {} has a request ({}) and no limit", who(), name, text));
    }
    return device;
}

void Reader::warn_without_device(const Figure& count, const Figure& priority, bool anything_else) {
    if (count.value != 0 || !count.readable) return;
    if (anything_else && count.present) {
        note(Code::count_zero, count,
             fmt::format("{}: {} is 0, so its other GPU figures mean nothing", who(), count.name));
    } else if (!count.present && priority.present && priority.value <= 1) {
        note(Code::priority_alone, priority,
             fmt::format("{}: {} without a GPU has no effect", who(), priority.name));
    }
}

/// A positive figure beats the percentage, and 0 counts as not given (1.3 S).
MemoryDemand Reader::memory_demand(const Figure& memory, const Figure& percentage) {
    const std::int64_t mib = memory_mib(memory);
    const bool share = percentage.present && percentage.value > 0;
    if (mib > 0 && share) {
        report(diagnostics_, Code::memory_beats_percentage,
               subject(percentage.name, "limits", percentage.text),
               fmt::format("{}: {} is {} and {} is {}; the absolute figure counts", who(),
                           memory.name, memory.text, percentage.name, percentage.text));
    }
    if (mib > 0) return {false, mib, 0};
    if (share && percentage.value == 100) return {true, 0, 0};
    if (share) return {false, 0, percentage.value};
    return {settings_.defaults.memory_mib == 0, settings_.defaults.memory_mib, 0};
}

LegacyRequest Reader::read() {
    const ResourceNames& names = settings_.resources;
    Figure count = figure(names.count);
    const Figure memory = figure(names.memory);
    Figure percentage = figure(names.memory_percentage);
    const Figure cores_figure = figure(names.cores);
    const Figure priority = figure(names.priority);
    const bool anything_else = memory.present || percentage.present || cores_figure.present;
    default_count(count, anything_else);
    LegacyRequest request;
    request.count_unclear = deny_missing_limits(count) || !count.readable;
    check_count(count);
    check_percentage(percentage);
    check_priority(priority);
    warn_without_device(count, priority, anything_else);
    request.only_count = !anything_else && !priority.present;
    request.shape.count = count.value;
    if (priority.present) request.shape.priority = priority.value;
    request.shape.memory = memory_demand(memory, percentage);
    request.shape.cores = cores_figure.present               ? cores(cores_figure)
                          : is_exclusive(memory, percentage) ? 100
                                                             : settings_.defaults.cores;
    return request;
}

}  // namespace

std::vector<std::string_view> legacy_names(const ResourceNames& names) {
    std::vector<std::string_view> all = {names.count, names.memory, names.memory_percentage,
                                         names.cores, names.priority};
    std::erase(all, std::string_view());
    return all;
}

const std::string& sharing_resource(const ClaimShape& shape, const ResourceNames& names) {
    if (shape.memory.percent > 0) return names.memory_percentage;
    if (shape.memory.mib > 0) return names.memory;
    return shape.cores < 100 && !names.cores.empty() ? names.cores : names.count;
}

LegacyEntries find_legacy(base::JsonView container, const std::vector<std::string_view>& names) {
    LegacyEntries found;
    const base::JsonView limits = container["resources"]["limits"];
    const base::JsonView requests = container["resources"]["requests"];
    for (const std::string_view name : names) {
        if (!limits[name].is_missing()) found.limits.push_back(name);
        if (!requests[name].is_missing()) found.requests.push_back(name);
    }
    return found;
}

LegacyRequest read_legacy_request(const ContainerView& container, const Settings& settings,
                                  Diagnostics& diagnostics) {
    return Reader(container, settings, diagnostics).read();
}

}  // namespace drawbridge::translate
