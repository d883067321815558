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

}  // namespace drawbridge::translate
