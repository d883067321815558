#include "tests/translate/decimal.hpp"
#include "tests/translate/judge.hpp"

#include <algorithm>

namespace drawbridge::oracle {
namespace {

using nlohmann::json;
using translate::Cluster;
using translate::Settings;
using translate::Verdict;

constexpr std::int64_t mib = 1 << 20;

bool any_percent(const std::vector<Share>& users) {
    return std::any_of(users.begin(), users.end(),
                       [](const Share& user) { return user.memory == Memory::percent; });
}

bool any_whole(const std::vector<Share>& users) {
    return std::any_of(users.begin(), users.end(),
                       [](const Share& user) { return user.memory == Memory::all; });
}

/// The amounts of one alternative on one device that it takes.
void judge_charge(const Alternative& option, const ModelDevice& device, std::int64_t memory,
                  std::int64_t cores, const Settings& settings) {
    const auto& target = settings.target;
    require(option.device_class == target.device_class, "device class " + option.device_class);
    const auto charged = option.charge(device);
    const auto check = [&](const std::string& name, std::int64_t right) {
        if (name.empty()) return;
        const auto booked = charged.at(name);
        require(booked == right, device.name + " is charged " + name + " " +
                                     std::to_string(booked) + ", not " + std::to_string(right));
    };
    check(target.memory_capacity, memory);
    check(target.cores_capacity, cores);
    if (target.slots_capacity.empty()) return;
    check(target.slots_capacity, cores == 100 ? device.capacity.at(target.slots_capacity) : 1);
}

/// One request on one device: taken by the right number of alternatives, each for the right
/// amounts.
void judge_device(const Request& request, const ModelDevice& device,
                  const std::vector<Share>& users, const Texts& annotations,
                  const Settings& settings, const Cluster& cluster) {
    std::vector<Alternative> takers;
    for (const auto& option : request.alternatives) {
        if (option.takes(device)) takers.push_back(option);
    }
    const bool ours = device.driver == settings.target.driver;
    if (!ours || !may_serve(annotations, settings, device)) {
        const bool bare =
            !ours &&
            request.alternatives[0].selectors.empty();  // the class keeps foreign devices away
        require(takers.empty() || bare, request.name + " takes " + device.name + ", and must not");
        return;
    }
    const auto size = settings.target.memory_capacity.empty()
                          ? 0
                          : device.capacity.at(settings.target.memory_capacity);
    std::int64_t memory = 0;
    std::int64_t cores = 0;
    for (const auto& user : users) {
        memory = std::max(memory, user.memory_on(size));
        cores = std::max(cores, user.cores);
    }
    const auto sizes = sizes_of(settings, cluster);
    const bool by_size = any_percent(users) && !any_whole(users);
    const bool listed = std::find(sizes.begin(), sizes.end(), size) != sizes.end();
    if (takers.empty()) {
        require(memory > size || (by_size && !listed),
                request.name + " does not take " + device.name + ", and should");
    }
    require(!by_size || takers.size() <= 1,
            request.name + " takes " + device.name + " more than once");
    for (const auto& option : takers)
        judge_charge(option, device, memory, cores, settings);
}

/// The form that decisions 5 and 6 demand, and that no device comes twice.
void judge_form(const Claim& claim, const std::vector<Share>& users, const Settings& settings,
                const Cluster& cluster) {
    const auto devices = users[0].devices;
    require(claim.count() == devices,
            "for " + std::to_string(claim.count()) + " devices, not " + std::to_string(devices));
    const bool by_size = any_percent(users) && !any_whole(users);
    const auto requests = static_cast<std::int64_t>(claim.requests.size());
    const auto peak =
        std::max_element(users.begin(), users.end(), [](const auto& left, const auto& right) {
            return left.cores < right.cores;
        })->cores;
    const bool too_big = peak > 50;    // for two on one card
    if (settings.profile == "hami") {  // R6 holds there (decision 17)
        const bool counted = requests == 1 && (cluster.minor >= 36 || too_big);
        require(requests == devices || counted, "a device may be given twice");
        require(too_big || devices > 6 || requests == devices, "one request for each device");
    } else if (cluster.minor < 36) {
        require(requests == devices, "below 1.36 each device needs its own request");
    } else {
        require(requests == 1 || (by_size && devices <= 6), "one request with a count");
        const bool sizes_differ = by_size && sizes_of(settings, cluster).size() > 1;
        require(!sizes_differ || devices > 6 || requests == devices,
                "cards of different size may serve: a request each");
    }
    const auto apart = std::any_of(
        claim.constraints.begin(), claim.constraints.end(), [&](const Constraint& found) {
            return found.distinct && claim.covers_all(found) &&
                   found.attribute == settings.target.driver + "/" + settings.target.uuid_attribute;
        });
    require(requests == 1 || apart || too_big, "a device may be given twice");
}

/// R12: devices of the mode's class by count, several of them may be on one card, chosen by memory
/// and nothing else.
void judge_mode(const Claim& claim, const std::vector<Share>& users,
                const translate::ModeTarget& target) {
    require(claim.count() == users[0].devices, "devices of the mode");
    std::int64_t least = 0;
    for (const auto& user : users)
        least = std::max(least, user.memory == Memory::mib ? user.amount * mib : 0);
    for (const auto& request : claim.requests) {
        for (const auto& option : request.alternatives) {
            require(option.device_class == target.device_class,
                    "device class " + option.device_class);
            require(option.amounts.empty(), "a figure on a device that is given whole");
            ModelDevice device{"mode", target.driver, {}, {{target.memory_capacity, least}}};
            const bool by_memory = least > 0 && option.selectors.size() == 1;
            require(!by_memory || option.takes(device),
                    "a device of the mode with just enough memory");
            device.capacity[target.memory_capacity] = least - 1;
            require(!by_memory || !option.takes(device),
                    "a device of the mode with too little memory");
        }
    }
}

void judge_constraints(const Claim& claim, std::int64_t devices, const Texts& annotations,
                       const Settings& settings) {
    const auto found = annotations.find(settings.annotations.numa_bind);
    static const std::set<std::string> yes{"1", "t", "T", "TRUE", "true", "True"};
    const bool bound = found != annotations.end() && yes.contains(found->second) && devices > 1 &&
                       !settings.target.numa_attribute.empty();
    bool kept = false;
    for (const auto& constraint : claim.constraints) {
        require(claim.covers_all(constraint), "a constraint leaves requests out");
        if (constraint.distinct) continue;
        require(bound && constraint.attribute == settings.target.numa_attribute,
                "a constraint nobody asked for");
        kept = true;
    }
    require(kept == bound, "the cards are to be on one NUMA node");
}

}  // namespace

std::vector<std::int64_t> sizes_of(const Settings& settings, const Cluster& cluster) {
    return settings.memory_sizes.empty() ? cluster.memory_sizes : settings.memory_sizes;
}

std::vector<ModelDevice> model_fleet(const Settings& settings, const Cluster& cluster,
                                     std::int64_t slots) {
    struct Card {
        const char* uuid;
        const char* type;
    };
    static const std::vector<Card> cards{{"GPU-a", "NVIDIA A100-SXM4-80GB"},
                                         {"GPU-b", "Tesla V100-PCIE-32GB"},
                                         {"GPU-c", "NVIDIA A10"},
                                         {"GPU-d", "Tesla T4"}};
    const auto& target = settings.target;
    auto sizes = sizes_of(settings, cluster);
    sizes.push_back(12345 * mib);
    std::vector<ModelDevice> fleet;
    for (std::size_t i = 0; i < std::max(sizes.size(), cards.size()); ++i) {
        const auto& card = cards[i % cards.size()];
        ModelDevice device{"gpu-" + std::to_string(i), target.driver, {}, {}};
        device.attributes[target.uuid_attribute] =
            i < cards.size() ? card.uuid : "GPU-" + std::to_string(i);
        device.attributes[target.product_attribute] = card.type;
        if (!target.memory_capacity.empty())
            device.capacity[target.memory_capacity] = sizes[i % sizes.size()];
        if (!target.cores_capacity.empty()) device.capacity[target.cores_capacity] = 100;
        if (!target.slots_capacity.empty()) device.capacity[target.slots_capacity] = slots;
        fleet.push_back(std::move(device));
    }
    fleet.push_back({"foreign", "nic.example.com", {}, {}});
    return fleet;
}

void judge_claim(const Claim& claim, const std::vector<Share>& users, const Texts& annotations,
                 const Settings& settings, const Cluster& cluster) {
    if (const auto mode = mode_of(annotations, settings); !mode.own) {
        judge_mode(claim, users, *mode.target);
        return;
    }
    judge_form(claim, users, settings, cluster);
    judge_constraints(claim, users[0].devices, annotations, settings);
    const bool in_claim = settings.target.priority == translate::PriorityForm::share_config;
    require(claim.priority == (in_claim ? users[0].priority : std::nullopt),
            "the claim's priority");
    for (const auto& device : model_fleet(settings, cluster)) {
        for (const auto& request : claim.requests) {
            judge_device(request, device, users, annotations, settings, cluster);
        }
    }
}

}  // namespace drawbridge::oracle
