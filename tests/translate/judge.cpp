#include "tests/translate/judge.hpp"

#include "tests/translate/decimal.hpp"

#include <algorithm>

namespace drawbridge::oracle {
namespace {

using nlohmann::json;
using translate::Cluster;
using translate::Settings;
using translate::Verdict;

/// Plain containers of limits or requests without our names and without what is empty.
void drop(json& holder, const char* key) {
    if (holder.contains(key) && (holder[key].is_null() || holder[key].empty())) holder.erase(key);
}

/// The pod without what a translation may change.
json rest_of(json pod, const Settings& settings) {
    const auto& names = settings.resources;
    auto& spec = pod["spec"];
    for (const auto* list : {"initContainers", "containers"}) {
        if (!spec.contains(list) || spec[list].is_null()) continue;
        for (auto& container : spec[list]) {
            if (!container.contains("resources") || container["resources"].is_null()) {
                container.erase("resources");
                continue;
            }
            auto& resources = container["resources"];
            for (const auto* key : {"limits", "requests"}) {
                if (!resources.contains(key) || !resources[key].is_object()) {
                    drop(resources, key);
                    continue;
                }
                for (const auto& name : {names.count, names.memory, names.memory_percentage,
                                         names.cores, names.priority}) {
                    resources[key].erase(name);
                }
                drop(resources, key);
            }
            resources.erase("claims");
            drop(container, "resources");
            if (settings.target.priority == translate::PriorityForm::environment)
                container.erase("env");
        }
    }
    spec.erase("resourceClaims");
    if (!pod.contains("metadata") || !pod["metadata"].is_object()) return pod;
    auto& metadata = pod["metadata"];
    if (metadata.contains("annotations") && metadata["annotations"].is_object()) {
        metadata["annotations"].erase("drawbridge.dev/original");
    }
    drop(metadata, "annotations");
    return pod;
}

void judge_scheduler(json& before, json& after, const Settings& settings) {
    const auto of = [](const json& pod) { return pod["spec"].value("schedulerName", ""); };
    if (of(before) == settings.policy.legacy_scheduler) {
        require(of(after) == settings.policy.scheduler || of(after).empty(),
                "schedulerName is " + of(after));
    } else {
        require(of(after) == of(before), "schedulerName is " + of(after));
    }
    before["spec"].erase("schedulerName");
    after["spec"].erase("schedulerName");
}

bool is_legacy(const std::string& name, const Settings& settings) {
    const auto& names = settings.resources;
    return name == names.count || name == names.memory || name == names.memory_percentage ||
           name == names.cores || name == names.priority;
}

/// The annotation that keeps the original request for people (design.md, Details settled).
void judge_annotation(const PodInput& input, const PodAnswer& right, const json& after,
                      const Settings& settings) {
    const auto text = after.value(
        json::json_pointer("/metadata/annotations/drawbridge.dev~1original"), std::string());
    const bool needed =
        std::any_of(right.containers.begin(), right.containers.end(),
                    [](const auto& container) { return container.share.has_value(); });
    require(!needed || !text.empty(), "the original request is not kept");
    if (text.empty()) return;
    const auto original = json::parse(text);
    require(original["v"] == 1, "version of the original request");
    std::set<std::string> kept;
    for (const auto& [name, value] : original["containers"].items())
        kept.insert(name);
    for (std::size_t i = 0; i < input.containers.size(); ++i) {
        const auto& container = input.containers[i];
        require(kept.contains(container.name) == right.containers[i].named,
                container.name + " in the original request");
        if (!right.containers[i].named) continue;
        for (const auto& [key, texts] :
             {std::pair{"limits", container.limits}, std::pair{"requests", container.requests}}) {
            const auto map = original["containers"][container.name].value(key, json::object());
            auto asked = texts;
            std::erase_if(asked,
                          [&](const auto& entry) { return !is_legacy(entry.first, settings); });
            require(map.get<Texts>() == asked,
                    container.name + ": " + key + " of the original request");
        }
    }
    if (!input.scheduler.empty() && input.scheduler == settings.policy.legacy_scheduler) {
        require(original.value("schedulerName", "") == input.scheduler,
                "schedulerName of the original request");
    }
}

void judge_unchanged(const PodInput& input, const PodAnswer& right, const ReadPod& pod,
                     const Settings& settings) {
    for (const auto& container : containers_of(pod.after)) {
        for (const auto* key : {"/resources/limits", "/resources/requests"}) {
            const json::json_pointer place(key);
            if (!container.contains(place) || !container[place].is_object()) continue;
            const auto& names = settings.resources;
            for (const auto& name : {names.count, names.memory, names.memory_percentage,
                                     names.cores, names.priority}) {
                require(!container[place].contains(name), name + " is left");
            }
        }
    }
    auto before = rest_of(pod.before, settings);
    auto after = rest_of(pod.after, settings);
    judge_scheduler(before, after, settings);
    if (before != after) throw Wrong("something else changed: " + json::diff(before, after).dump());
    judge_annotation(input, right, pod.after, settings);
}

/// CUDA_TASK_PRIORITY of a container that has a share, on profiles where it travels as a variable.
void judge_environment(const json& container, const Share& share, const Settings& settings) {
    if (settings.target.priority != translate::PriorityForm::environment || !share.priority) return;
    std::vector<std::string> found;
    for (const auto& variable : container.value("env", json::array())) {
        if (variable["name"] == "CUDA_TASK_PRIORITY") found.push_back(variable.value("value", ""));
    }
    require(found == std::vector{std::to_string(*share.priority)},
            "CUDA_TASK_PRIORITY is not the priority, once");
}

/// Who may share a claim with whom, and that those share that should.
void judge_sharing(const PodInput& input, const PodAnswer& right, const ReadPod& pod) {
    std::map<std::string, std::vector<std::size_t>> users;
    for (std::size_t i = 0; i < input.containers.size(); ++i) {
        const auto& name = input.containers[i].name;
        const bool uses = pod.claim_of.contains(name);
        require(uses == right.containers[i].share.has_value(),
                name + (uses ? " has a claim" : " has no claim"));
        if (uses) users[pod.claim_of.at(name)].push_back(i);
    }
    const auto count = [&](const std::vector<std::size_t>& group, Sort sort) {
        return std::count_if(group.begin(), group.end(),
                             [&](auto i) { return input.containers[i].sort == sort; });
    };
    const auto shares = [&](const std::vector<std::size_t>& group) {
        std::vector<Share> all;
        for (const auto i : group)
            all.push_back(*right.containers[i].share);
        return all;
    };
    for (const auto& [entry, group] : users) {
        const bool together =
            count(group, Sort::main) > 1 || (count(group, Sort::sidecar) > 0 && group.size() > 1);
        require(!together, entry + " is shared by containers that run together");
        require(may_share(shares(group)), entry + " is shared by unlike ones");
    }
    for (const auto& [entry, group] : users) {
        if (count(group, Sort::init) != static_cast<std::ptrdiff_t>(group.size())) continue;
        for (const auto& [other, home] : users) {
            if (other == entry || count(home, Sort::sidecar) > 0) continue;
            const auto theirs = shares(home);
            const auto one_by_one = [&](const Share& mine) {
                return std::all_of(theirs.begin(), theirs.end(), [&](const Share& user) {
                    return may_share({user, mine});
                });
            };
            const auto mine = shares(group);
            require(!std::all_of(mine.begin(), mine.end(), one_by_one),
                    entry + " stands beside " + other);
        }
    }
}

/// An init container that some main container covers as it is must not have made another claim
/// grow.
void judge_growth(const PodInput& input, const PodAnswer& right, const ReadPod& pod,
                  const Settings& settings, const Cluster& cluster) {
    const auto covers = [&](const std::vector<Share>& by, const Share& share) {
        const auto fleet = model_fleet(settings, cluster);
        return std::all_of(fleet.begin(), fleet.end(), [&](const ModelDevice& device) {
            if (!device.capacity.contains(settings.target.memory_capacity)) return true;
            const auto size = device.capacity.at(settings.target.memory_capacity);
            // A claim by percentage never comes to a card of a size that is not listed.
            const bool by_size = std::any_of(by.begin(), by.end(), [](const Share& one) {
                return one.memory == Memory::percent;
            });
            const auto listed = sizes_of(settings, cluster);
            const bool is_listed = std::find(listed.begin(), listed.end(), size) != listed.end();
            if (by_size && !is_listed) return true;
            std::int64_t memory = 0;
            std::int64_t cores = 0;
            for (const auto& one : by) {
                memory = std::max(memory, one.memory_on(size));
                cores = std::max(cores, one.cores);
            }
            return memory >= share.memory_on(size) && cores >= share.cores;
        });
    };
    for (std::size_t i = 0; i < input.containers.size(); ++i) {
        if (input.containers[i].sort != Sort::init || !right.containers[i].share) continue;
        const auto& mine = *right.containers[i].share;
        bool covered = false;
        std::vector<Share> others;
        for (std::size_t k = 0; k < input.containers.size(); ++k) {
            if (k == i || !right.containers[k].share) continue;
            const auto& other = *right.containers[k].share;
            if (input.containers[k].sort == Sort::main && may_share({other, mine})) {
                covered = covered || covers({other}, mine);
            }
            if (pod.claim_of.at(input.containers[k].name) ==
                pod.claim_of.at(input.containers[i].name)) {
                others.push_back(other);
            }
        }
        require(!covered || covers(others, mine),
                input.containers[i].name + " makes a claim grow, and need not");
    }
}

void judge_denial(const PodInput& input, const PodAnswer& right,
                  const translate::Translation& translation) {
    std::set<std::string> named;
    for (const auto& diagnostic : translation.diagnostics) {
        if (diagnostic.severity == translate::Severity::denied) named.insert(diagnostic.container);
    }
    require(!named.empty(), "a denial without a reason");
    for (std::size_t i = 0; i < input.containers.size(); ++i) {
        const auto& name = input.containers[i].name;
        require(!right.containers[i].faulty || named.contains(name), "no denial names " + name);
    }
    require(translation.templates.empty() && translation.patch.empty(),
            "a denial with a patch or templates");
}

void judge_translated(const PodInput& input, const std::string& text, const PodAnswer& right,
                      const translate::Translation& translation, const Settings& settings,
                      const Cluster& cluster) {
    const auto pod = read_translation(text, translation, settings);
    judge_unchanged(input, right, pod, settings);
    judge_sharing(input, right, pod);
    judge_growth(input, right, pod, settings, cluster);
    const auto containers = containers_of(pod.after);
    for (std::size_t i = 0; i < input.containers.size(); ++i) {
        if (right.containers[i].share)
            judge_environment(containers.at(i), *right.containers[i].share, settings);
    }
    for (const auto& [entry, claim] : pod.claims) {
        std::vector<Share> users;
        for (std::size_t i = 0; i < input.containers.size(); ++i) {
            const auto use = pod.claim_of.find(input.containers[i].name);
            if (use != pod.claim_of.end() && use->second == entry)
                users.push_back(*right.containers[i].share);
        }
        try {
            judge_claim(claim, users, input.annotations, settings, cluster);
        } catch (const Wrong& wrong) {
            throw Wrong("entry " + entry + ": " + wrong.what());
        }
    }
}

}  // namespace

std::string judge(const PodInput& input, const std::string& pod, const PodAnswer& right,
                  const translate::Translation& translation, const Settings& settings,
                  const Cluster& cluster) {
    try {
        const bool unsized = right.needs_sizes && right.verdict != Verdict::deny;
        require(!unsized || translation.sizes_needed, "the memory sizes are needed");
        if (unsized) return {};
        require(translation.verdict == right.verdict,
                "the verdict is " + std::string(name(translation.verdict)) + ", not " +
                    std::string(name(right.verdict)));
        if (right.verdict == Verdict::deny) {
            judge_denial(input, right, translation);
        } else if (right.verdict == Verdict::leave) {
            require(translation.patch.empty() && translation.templates.empty(),
                    "left alone with a patch or templates");
        } else {
            judge_translated(input, pod, right, translation, settings, cluster);
        }
    } catch (const Wrong& wrong) {
        return wrong.what();
    } catch (const json::exception& error) {
        return error.what();
    }
    return {};
}

translate::Translation translate_text(const std::string& pod, const Settings& settings,
                                      const Cluster& cluster, const Texts& namespace_labels) {
    const auto document = base::parse_json(pod).value();
    translate::PodReview review;
    review.pod = document.root();
    review.namespace_labels = namespace_labels;
    return translate::translate_pod(review, settings, cluster);
}

}  // namespace drawbridge::oracle
