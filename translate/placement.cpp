#include "translate/placement.hpp"

#include "base/text.hpp"
#include "translate/notes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::translate {

namespace {

/// The items of a comma list, trimmed, without empty ones.
std::vector<std::string> split(std::string_view text) {
    std::vector<std::string> items;
    while (true) {
        const auto comma = text.find(',');
        if (const auto item = base::trim(text.substr(0, comma)); !item.empty())
            items.emplace_back(item);
        if (comma == std::string_view::npos) return items;
        text.remove_prefix(comma + 1);
    }
}

void sort_unique(std::vector<std::string>& items) {
    std::ranges::sort(items);
    items.erase(std::unique(items.begin(), items.end()), items.end());
}

/// HAMi before 2.10 put its vendor before every product name, its own too: users copied
/// `NVIDIA-NVIDIA A10` from the node's annotation, which holds no such card's name any more.
void drop_doubled_vendor(std::string& type) {
    constexpr std::string_view vendor = "NVIDIA-";
    if (type.starts_with("NVIDIA-NVIDIA")) type.erase(0, vendor.size());
}

/// Whether a card's name or UUID may hold the sign. Those that people divide lists with it may not,
/// nor quotes, which a chart puts round a value that has some, nor what is no ASCII: a full-width
/// comma stands in an example of HAMi's own documentation.
bool is_sign_of_a_name(char sign) {
    constexpr std::string_view foreign = ";|\"'";
    return sign >= ' ' && sign <= '~' && foreign.find(sign) == std::string_view::npos;
}

bool is_part_of_a_name(std::string_view item) {
    return std::ranges::all_of(item, is_sign_of_a_name);
}

/// A UUID, and no index.
bool is_uuid(std::string_view item) {
    constexpr std::string_view others = " [](){}";
    return is_part_of_a_name(item) && item.find_first_of(others) == std::string_view::npos &&
           item.find_first_not_of("0123456789") != std::string_view::npos;
}

class Reader {
public:
    Reader(base::JsonView pod, const Settings& settings, Diagnostics& diagnostics)
        : annotations_(annotations_of(pod)), settings_(settings), diagnostics_(diagnostics) {}

    Placement read();

private:
    /// An API server reads `null` as an empty text.
    std::optional<std::string_view> text(const std::string& name) const {
        if (name.empty() || annotations_[name].is_missing()) return std::nullopt;
        return annotations_[name].is_absent() ? "" : annotations_[name].as_string();
    }
    using Test = bool (*)(std::string_view item);
    std::vector<std::string> list(const std::string& name, bool wanted, Test can_match);
    void read_mode(Placement& placement);
    void read_policies(Placement& placement);
    void warn_wish(const std::string& name);
    Subject subject(const std::string& name) const {
        return {kube::PointerPath() / "metadata" / "annotations" / name,
                {},
                name,
                std::string(text(name).value_or(""))};
    }

    base::JsonView annotations_;
    const Settings& settings_;
    Diagnostics& diagnostics_;
};

/// Blank means no constraint; separators alone match nothing, which only a list of wanted devices
/// can mean.
std::vector<std::string> Reader::list(const std::string& name, bool wanted, Test can_match) {
    const auto value = text(name);
    if (!value || base::trim(*value).empty()) return {};
    std::vector<std::string> items = split(*value);
    if (items.empty() && wanted) {
        report(diagnostics_, Code::device_list_empty, subject(name),
               fmt::format("annotation {} is \"{}\", which names no device", name, *value));
    }
    if (const auto odd = std::ranges::find_if_not(items, can_match); odd != items.end()) {
        report(diagnostics_, Code::device_list_item, subject(name),
               fmt::format("annotation {}: the item \"{}\" matches no card", name,
                           base::shortened(*odd, 64)));
    }
    sort_unique(items);
    return items;
}

/// HAMi takes a device if its mode is a part of the value, so a blank value takes none.
void Reader::read_mode(Placement& placement) {
    const std::string& name = settings_.annotations.mode;
    const auto value = text(name);
    if (!value || value->find("hami-core") != std::string_view::npos) return;
    for (const auto& [mode, target] : settings_.target.mode_classes) {
        if (value->find(mode) == std::string_view::npos) continue;
        placement.mode = &target;
        return;
    }
    report(
        diagnostics_, Code::mode_unsupported, subject(name),
        fmt::format("annotation {} is \"{}\", and no device class serves that mode", name, *value));
}

void Reader::warn_wish(const std::string& name) {
    report(diagnostics_, Code::placement_policy, subject(name),
           fmt::format("annotation {} is \"{}\", which cannot be expressed; the pod is placed "
                       "without it",
                       name, text(name).value_or("")));
}

void Reader::read_policies(Placement& placement) {
    const AnnotationNames& names = settings_.annotations;
    for (const std::string* name : {&names.node_policy, &names.scoring_weights}) {
        if (!base::trim(text(*name).value_or("")).empty()) warn_wish(*name);
    }
    std::vector<std::string> chain = split(text(names.device_policy).value_or(""));
    const bool mutex = std::erase(chain, "mutex") > 0;
    if (!chain.empty()) warn_wish(names.device_policy);
    if (!mutex) return;
    placement.whole_card = settings_.policy.mutex == Mutex::whole_card;
    report(diagnostics_, Code::policy_mutex, subject(names.device_policy),
           fmt::format("annotation {} asks for a card without tenants: {}", names.device_policy,
                       placement.whole_card ? "the pod gets whole cards for itself"
                                            : "ignored, as the settings say"));
}

Placement Reader::read() {
    const AnnotationNames& names = settings_.annotations;
    Placement placement;
    placement.use_types = list(names.use_type, true, is_part_of_a_name);
    placement.nouse_types = list(names.nouse_type, false, is_part_of_a_name);
    for (auto* types : {&placement.use_types, &placement.nouse_types}) {
        std::ranges::transform(*types, types->begin(), base::upper_ascii);
        std::ranges::for_each(*types, drop_doubled_vendor);
        sort_unique(*types);
    }
    placement.use_uuids = list(names.use_uuid, true, is_uuid);
    placement.nouse_uuids = list(names.nouse_uuid, false, is_uuid);
    placement.one_numa_node = base::is_go_true(text(names.numa_bind).value_or(""));
    read_mode(placement);
    read_policies(placement);
    return placement;
}

}  // namespace

std::vector<std::string_view> annotation_names(const AnnotationNames& names) {
    std::vector<std::string_view> all = {
        names.use_type,    names.nouse_type,    names.use_uuid,
        names.nouse_uuid,  names.numa_bind,     names.mode,
        names.node_policy, names.device_policy, names.scoring_weights};
    std::erase(all, std::string_view());
    return all;
}

Placement read_placement(base::JsonView pod, const Settings& settings, Diagnostics& diagnostics) {
    return Reader(pod, settings, diagnostics).read();
}

}  // namespace drawbridge::translate
