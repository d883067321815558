#include "translate/pod_view.hpp"

namespace drawbridge::translate {

namespace {

void add_list(PodView& view, std::string_view list, bool init) {
    const base::JsonView containers = view.pod["spec"][list];
    const kube::PointerPath path = kube::PointerPath() / "spec" / list;
    for (std::size_t index = 0; index < containers.size(); ++index) {
        const base::JsonView json = containers.at(index);
        if (!json.is_object()) continue;
        ContainerKind kind = ContainerKind::main;
        if (init) {
            const bool restarts = json["restartPolicy"].string_or("") == "Always";
            kind = restarts ? ContainerKind::sidecar : ContainerKind::init;
        }
        view.containers.push_back(
            {std::string(json["name"].string_or("")), kind, index, path / index, json});
    }
}

bool same_members(base::JsonView left, base::JsonView right) {
    const auto members = left.members();
    if (members.size() != right.members().size()) return false;
    for (const auto& [key, value] : members) {
        if (!same_value(value, right[key])) return false;
    }
    return true;
}

bool same_elements(base::JsonView left, base::JsonView right) {
    if (left.size() != right.size()) return false;
    for (std::size_t index = 0; index < left.size(); ++index) {
        if (!same_value(left.at(index), right.at(index))) return false;
    }
    return true;
}

}  // namespace

PodView read_pod(base::JsonView pod) {
    PodView view{pod, {}};
    add_list(view, "initContainers", true);
    add_list(view, "containers", false);
    return view;
}

base::JsonView annotations_of(base::JsonView pod) {
    return pod["metadata"]["annotations"];
}

bool same_value(base::JsonView left, base::JsonView right) {
    if (left.kind() != right.kind()) return false;
    if (left.is_missing()) return true;
    if (left.is_object()) return same_members(left, right);
    if (left.is_array()) return same_elements(left, right);
    return left.to_json() == right.to_json();
}

}  // namespace drawbridge::translate
