#include "tests/translate/hami_oracle.hpp"

#include "tests/translate/decimal.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace drawbridge::oracle {
namespace {

using translate::Settings;
using translate::Verdict;

constexpr std::int64_t mib = 1 << 20;

std::vector<std::string> names_of(const Settings& settings) {
    const auto& names = settings.resources;
    std::vector<std::string> all;
    for (const auto& name :
         {names.count, names.memory, names.memory_percentage, names.cores, names.priority}) {
        if (!name.empty()) all.push_back(name);
    }
    return all;
}

bool has(const Texts& map, const std::string& key) {
    return !key.empty() && map.contains(key);
}

/// A container on its way through the stages; `refuse` collects why it cannot go on.
struct Working {
    Texts limits;
    Texts requests;
    std::set<std::string> refused;

    void refuse(const std::string& name, const std::string& why) {
        refused.insert(name + " " + why);
    }
    /// The figure of limits, else of requests; only for values that passed the first check.
    [[nodiscard]] std::optional<Decimal> figure(const std::string& name) const {
        for (const auto* map : {&limits, &requests}) {
            if (has(*map, name)) return read_quantity(map->at(name));
        }
        return std::nullopt;
    }
    [[nodiscard]] std::optional<std::int64_t> number(const std::string& name) const {
        const auto value = figure(name);
        return value ? value->whole() : std::nullopt;
    }
};

/// R1, the part on single values: quantities that are whole and not negative, percentages up to
/// 100, priorities 0 and 1.
void check_values(Working& work, const Settings& settings) {
    for (const auto* map : {&work.limits, &work.requests}) {
        for (const auto& name : names_of(settings)) {
            if (!has(*map, name)) continue;
            const auto value = read_quantity(map->at(name));
            if (!value) {
                work.refuse(name, "is no quantity");
            } else if (value->negative && !value->is_zero()) {
                work.refuse(name, "is negative");
            } else if (!value->is_whole()) {
                work.refuse(name, "is not whole");
            } else if (!value->whole()) {
                work.refuse(name, "does not fit in 64 bits");  // no whole number to HAMi
            } else if (name == settings.resources.memory_percentage && *value > decimal(100)) {
                work.refuse(name, "is over 100");
            } else if (name == settings.resources.priority && *value > decimal(1)) {
                work.refuse(name, "is over 1");
            } else if (name == settings.resources.count && *value > decimal(32)) {
                work.refuse(name, "is over 32");
            } else if (name == settings.resources.memory) {
                const auto product =
                    times(*value, static_cast<std::uint32_t>(
                                      std::max<std::int64_t>(settings.defaults.memory_factor, 1)));
                if (product >= decimal(std::int64_t{1} << 31))
                    work.refuse(name, "is 2^31 MiB or more");
                if (product > decimal(settings.policy.max_memory_mib))
                    work.refuse(name, "is more than a card has");
            }
        }
    }
}

/// Stage W, steps 4 and 5 (legacy-requests.md 1.3). Step 1 is among the values, 2, 3, 6 and 7
/// change no claim.
void stage_w(Working& work, const Settings& settings) {
    const auto& names = settings.resources;
    if (!has(work.limits, names.count)) {
        const bool other = has(work.limits, names.cores) || has(work.limits, names.memory) ||
                           has(work.limits, names.memory_percentage);
        if (other && settings.defaults.count > 0)
            work.limits[names.count] = std::to_string(settings.defaults.count);
        if (other && settings.defaults.count <= 0)
            work.refuse(names.count, "is missing and has no default");
    }
    if (!has(work.limits, names.count) && !has(work.requests, names.count)) return;
    if (has(work.limits, names.cores) || has(work.requests, names.cores)) return;
    bool exclusive = false;
    if (has(work.limits, names.memory_percentage) || has(work.requests, names.memory_percentage)) {
        exclusive = work.number(names.memory_percentage) == 100;
    } else if (names.memory.empty()) {
        exclusive = true;
    } else {
        exclusive = !has(work.limits, names.memory) && !has(work.requests, names.memory);
    }
    if (exclusive && !names.cores.empty()) work.limits[names.cores] = "100";
}

/// What Kubernetes demands of extended resources, on the result of stage W: no request without a
/// limit, both equal.
void check_requests(Working& work, const Settings& settings) {
    for (const auto& name : names_of(settings)) {
        if (!has(work.requests, name)) continue;
        if (!has(work.limits, name)) {
            work.refuse(name, "has a request and no limit");
        } else if (read_quantity(work.requests.at(name)) != read_quantity(work.limits.at(name))) {
            work.refuse(name, "has a request that differs from its limit");
        }
    }
}

/// Stage S and the rules at fit time. nullopt: count 0, no device.
std::optional<Share> stage_s(const Working& work, const Settings& settings) {
    const auto& names = settings.resources;
    Share share;
    share.devices = work.number(names.count).value_or(0);
    if (share.devices <= 0) return std::nullopt;
    auto memory = work.number(names.memory).value_or(0) *
                  std::max<std::int64_t>(settings.defaults.memory_factor, 1);
    constexpr std::int64_t unset = 101;
    auto percentage = work.number(names.memory_percentage).value_or(unset);
    if (percentage <= 0) percentage = unset;
    if (percentage == unset && memory == 0) {
        if (settings.defaults.memory_mib != 0) {
            memory = settings.defaults.memory_mib;
        } else {
            percentage = 100;
        }
    }
    share.cores =
        std::min<std::int64_t>(work.number(names.cores).value_or(settings.defaults.cores), 100);
    if (memory > 0) {
        share.memory = Memory::mib;
        share.amount = memory;
    } else if (percentage < 100) {
        share.memory = Memory::percent;
        share.amount = percentage;
    }
    share.priority = work.number(names.priority);
    return share;
}

/// What the target makes of a share that HAMi would give (design.md 10, 17, and the rows on
/// exclusive shares).
void fit_target(Share& share, Working& work, const Settings& settings,
                const translate::Cluster& cluster, bool& needs_sizes) {
    const auto& target = settings.target;
    if (!target.shares && (share.memory != Memory::all || share.cores < 100)) {
        work.refuse("share", "of a card, where only whole cards can be given");
        return;
    }
    if (share.exclusive() && target.exclusive_memory == translate::ExclusiveMemory::drop) {
        share.memory = Memory::all;
        share.amount = 0;
    }
    if (share.memory != Memory::percent) return;
    const auto& sizes =
        settings.memory_sizes.empty() ? cluster.memory_sizes : settings.memory_sizes;
    if (settings.memory_sizes.empty() && cluster.sizes_state == translate::SizesState::not_listed) {
        needs_sizes = true;
        return;
    }
    if (sizes.empty()) work.refuse("percentage", "without known memory sizes");
    if (sizes.size() > 8) work.refuse("percentage", "over more than eight memory sizes");
    for (const auto size : sizes) {
        if (share.memory_on(size) == 0)
            work.refuse("percentage", "of a card that comes to less than a MiB");
    }
}

/// Go's unicode.IsSpace of a whole character in UTF-8.
bool is_space(std::string_view character) {
    std::uint32_t code = 0;
    for (const char byte : character) {
        const auto bits = static_cast<unsigned char>(byte);
        code = (bits & 0xC0U) == 0x80U ? code << 6U | (bits & 0x3FU)
               : bits < 0x80U          ? bits
               : bits < 0xE0U          ? bits & 0x1FU
                                       : bits & 0x0FU;
    }
    return (code >= 9 && code <= 13) || code == 0x20 || code == 0x85 || code == 0xA0 ||
           code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

/// Go's strings.TrimSpace.
std::string_view trimmed(std::string_view text) {
    const auto continues = [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
    };
    while (!text.empty()) {
        std::size_t size = 1;
        while (size < text.size() && continues(text[size]))
            ++size;
        if (!is_space(text.substr(0, size))) break;
        text.remove_prefix(size);
    }
    while (!text.empty()) {
        std::size_t size = 1;
        while (size < text.size() && continues(text[text.size() - size]))
            ++size;
        if (!is_space(text.substr(text.size() - size))) break;
        text.remove_suffix(size);
    }
    return text;
}

/// The items of a list annotation; nullopt where it is absent or blank.
std::optional<std::vector<std::string>> items_of(const Texts& annotations,
                                                 const std::string& name) {
    const auto found = annotations.find(name);
    if (name.empty() || found == annotations.end() || trimmed(found->second).empty())
        return std::nullopt;
    std::vector<std::string> items;
    std::string_view rest = found->second;
    while (true) {
        const auto comma = std::min(rest.find(','), rest.size());
        if (const auto item = trimmed(rest.substr(0, comma)); !item.empty())
            items.emplace_back(item);
        if (comma == rest.size()) return items;
        rest.remove_prefix(comma + 1);
    }
}

std::string upper(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
    return out;
}

void check_placement(const Texts& annotations, const Settings& settings,
                     std::set<std::string>& reasons) {
    const auto& names = settings.annotations;
    for (const auto& name : {names.use_type, names.use_uuid}) {
        if (const auto items = items_of(annotations, name); items && items->empty())
            reasons.insert(name + " is empty");
    }
    const auto mode = mode_of(annotations, settings);
    if (!mode.own && mode.target == nullptr)
        reasons.insert(names.mode + " allows nothing that there is");
}

/// The exclusive form of a pod that asks for a card without tenants (R11: the strongest reading).
void apply_mutex(const Texts& annotations, const Settings& settings, Share& share) {
    const auto policy = annotations.find(settings.annotations.device_policy);
    if (policy == annotations.end() || settings.policy.mutex == translate::Mutex::ignore) return;
    std::string_view rest = policy->second;
    while (true) {
        const auto comma = std::min(rest.find(','), rest.size());
        if (trimmed(rest.substr(0, comma)) == "mutex") {
            share.memory = Memory::all;
            share.amount = 0;
            share.cores = 100;
        }
        if (comma == rest.size()) return;
        rest.remove_prefix(comma + 1);
    }
}

bool is_out_of_scope(const PodInput& pod, const Settings& settings) {
    if (pod.annotations.contains("kubernetes.io/config.mirror")) return true;
    for (const auto& [label, value] : settings.policy.opt_out_labels) {
        for (const auto* labels : {&pod.labels, &pod.namespace_labels}) {
            if (const auto found = labels->find(label);
                found != labels->end() && found->second == value)
                return true;
        }
    }
    const auto& capable = settings.policy.capable_schedulers;
    const bool known = pod.scheduler.empty() || pod.scheduler == "default-scheduler" ||
                       pod.scheduler == settings.policy.scheduler ||
                       pod.scheduler == settings.policy.legacy_scheduler ||
                       std::find(capable.begin(), capable.end(), pod.scheduler) != capable.end();
    return !known;
}

ContainerAnswer answer_container(const ContainerInput& input, const PodInput& pod,
                                 const Settings& settings, const translate::Cluster& cluster,
                                 PodAnswer& answer) {
    ContainerAnswer mine;
    Working work{input.limits, input.requests, {}};
    for (const auto& name : names_of(settings)) {
        mine.named = mine.named || has(work.limits, name) || has(work.requests, name);
    }
    if (!mine.named) return mine;
    check_values(work, settings);
    if (work.refused.empty()) {
        stage_w(work, settings);
        check_requests(work, settings);
    }
    if (work.refused.empty()) mine.share = stage_s(work, settings);
    if (mine.share) {
        apply_mutex(pod.annotations, settings, *mine.share);
        if (mode_of(pod.annotations, settings).own) {
            fit_target(*mine.share, work, settings, cluster, answer.needs_sizes);
        } else if (mode_of(pod.annotations, settings).target != nullptr &&
                   (mine.share->memory == Memory::percent ||
                    (mine.share->cores > 0 && mine.share->cores < 100))) {
            work.refuse("a part", "of a device that is given whole");
        }
    }
    mine.faulty = !work.refused.empty();
    for (const auto& why : work.refused)
        answer.reasons.insert(input.name + ": " + why);
    return mine;
}

}  // namespace

std::int64_t Share::memory_on(std::int64_t device_bytes) const {
    if (memory == Memory::all) return device_bytes;
    if (memory == Memory::mib) return amount * mib;
    return device_bytes / mib * amount / 100 * mib;
}

Mode mode_of(const Texts& annotations, const Settings& settings) {
    const auto found = settings.annotations.mode.empty()
                           ? annotations.end()
                           : annotations.find(settings.annotations.mode);
    if (found == annotations.end() || found->second.find("hami-core") != std::string::npos)
        return {};
    for (const auto& [known, target] : settings.target.mode_classes) {
        if (found->second.find(known) != std::string::npos) return {false, &target};
    }
    return {false, nullptr};
}

bool may_share(const std::vector<Share>& users) {
    bool unlimited = false;
    std::int64_t peak = 0;
    for (const auto& user : users) {
        if (user.devices != users[0].devices || user.priority != users[0].priority) return false;
        unlimited = unlimited || user.cores == 0;
        peak = std::max(peak, user.cores);
    }
    return !unlimited || peak == 0 || peak == 100;
}

bool may_serve(const Texts& annotations, const Settings& settings, const ModelDevice& device) {
    const auto text = [&](const std::string& name) {
        const auto found = device.attributes.find(name);
        return found == device.attributes.end() ? std::string()
                                                : std::get<std::string>(found->second);
    };
    const auto uuid = text(settings.target.uuid_attribute);
    auto type = upper(text(settings.target.product_attribute));
    const auto type_before_2_10 = "NVIDIA-" + type;
    if (!type.starts_with("NVIDIA")) type = type_before_2_10;
    const auto& names = settings.annotations;
    const auto any_type = [&](const std::vector<std::string>& items) {
        return std::any_of(items.begin(), items.end(), [&](const auto& item) {
            const auto part = upper(item);
            const bool copied = part.starts_with("NVIDIA-NVIDIA");
            return (copied ? type_before_2_10 : type).find(part) != std::string::npos;
        });
    };
    const auto any_uuid = [&](const std::vector<std::string>& items) {
        return std::find(items.begin(), items.end(), uuid) != items.end();
    };
    if (const auto items = items_of(annotations, names.use_type); items && !any_type(*items))
        return false;
    if (const auto items = items_of(annotations, names.nouse_type); items && any_type(*items))
        return false;
    if (const auto items = items_of(annotations, names.use_uuid); items && !any_uuid(*items))
        return false;
    if (const auto items = items_of(annotations, names.nouse_uuid); items && any_uuid(*items))
        return false;
    return true;
}

PodAnswer answer_of(const PodInput& pod, const Settings& settings,
                    const translate::Cluster& cluster) {
    PodAnswer answer;
    if (is_out_of_scope(pod, settings)) {
        answer.containers.resize(pod.containers.size());
        return answer;
    }
    bool named = false;
    bool privileged = false;
    std::int64_t devices = 0;
    for (const auto& container : pod.containers) {
        answer.containers.push_back(answer_container(container, pod, settings, cluster, answer));
        const auto& mine = answer.containers.back();
        named = named || mine.named;
        privileged = privileged || container.privileged;
        devices += mine.share ? mine.share->devices : 0;
    }
    if (devices > 0) {
        if (privileged && settings.policy.privileged == translate::Deny::yes)
            answer.reasons.insert("privileged");
        if (!pod.node_name.empty()) answer.reasons.insert("node name");
        check_placement(pod.annotations, settings, answer.reasons);
    }
    const bool too_old = cluster.minor < 35 || cluster.features != translate::Features::complete;
    if (too_old && devices > 0) {
        if (settings.policy.old_server == translate::OldServer::passthrough)
            return {{}, answer.containers, {}, false};
        answer.reasons.insert("server");
    }
    const bool legacy_scheduler = !settings.policy.legacy_scheduler.empty() &&
                                  pod.scheduler == settings.policy.legacy_scheduler &&
                                  pod.scheduler != settings.policy.scheduler;
    if (!answer.reasons.empty()) {
        answer.verdict = Verdict::deny;
    } else if (named || legacy_scheduler) {
        answer.verdict = Verdict::translate;
    }
    return answer;
}

}  // namespace drawbridge::oracle
