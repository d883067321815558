#include "translate/pod_checks.hpp"

#include "translate/environment.hpp"
#include "translate/legacy_request.hpp"
#include "translate/notes.hpp"
#include "translate/placement.hpp"

#include <fmt/format.h>

#include <array>

namespace drawbridge::translate {

namespace {

/// Reports a value that is there and is of another kind than the API has in that place.
void expect(base::JsonView value, base::JsonKind kind, const kube::PointerPath& path,
            const std::string& container, Diagnostics& diagnostics) {
    if (value.is_absent() || value.kind() == kind) return;
    const std::string_view wanted = kind == base::JsonKind::array    ? "a list"
                                    : kind == base::JsonKind::object ? "a map"
                                                                     : "a text, in quotes";
    report(diagnostics, Code::wrong_kind,
           {path, container, path.text().substr(path.text().rfind('/') + 1), {}},
           fmt::format("{} must be {}", path.text(), wanted));
}

}  // namespace

void check_kinds(const PodView& pod, const Settings& settings, Diagnostics& diagnostics) {
    const base::JsonView metadata = pod.pod["metadata"];
    const kube::PointerPath root;
    const auto object = base::JsonKind::object;
    const auto array = base::JsonKind::array;
    expect(metadata, object, root / "metadata", {}, diagnostics);
    expect(metadata["annotations"], object, root / "metadata" / "annotations", {}, diagnostics);
    for (const std::string_view name : annotation_names(settings.annotations)) {
        expect(metadata["annotations"][name], base::JsonKind::string,
               root / "metadata" / "annotations" / name, {}, diagnostics);
    }
    expect(pod.pod["spec"]["resourceClaims"], array, root / "spec" / "resourceClaims", {},
           diagnostics);
    for (const ContainerView& container : pod.containers) {
        const base::JsonView resources = container.json["resources"];
        const std::string name(container.name);
        expect(resources["claims"], array, container.path / "resources" / "claims", name,
               diagnostics);
        expect(container.json["env"], array, container.path / "env", name, diagnostics);
    }
}

bool check_server(const Cluster& cluster, const Settings& settings, Diagnostics& diagnostics) {
    const bool old = cluster.features == Features::too_old || cluster.minor < 35;
    if (!old && cluster.features == Features::complete) return true;
    report(diagnostics, old ? Code::server_too_old : Code::gate_off,
           {kube::PointerPath() / "spec", {}, "kubernetes", {}},
           old ? "the pod asks for GPU shares, and the API server is older than Kubernetes 1.35"
               : "the pod asks for GPU shares, and the API server drops capacity requests "
                 "(feature gate DRAConsumableCapacity)");
    if (settings.policy.old_server == OldServer::passthrough) {
        Diagnostic warning = std::move(diagnostics.back());
        warning.severity = Severity::warning;
        diagnostics = {std::move(warning)};
    }
    return false;
}

void check_isolation(const PodView& pod, const Settings& settings, Diagnostics& diagnostics) {
    for (const ContainerView& container : pod.containers) {
        const bool privileged =
            container.json["securityContext"]["privileged"].as_bool().value_or(false);
        if (!privileged || settings.policy.privileged == Deny::no) continue;
        report(diagnostics, Code::privileged_container,
               {container.path / "securityContext" / "privileged", container.name,
                "securityContext.privileged", "true"},
               fmt::format("{} is privileged, in a pod that asks for GPUs",
                           quoted_container(container)));
    }
    const std::string_view node = pod.pod["spec"]["nodeName"].string_or("");
    if (node.empty()) return;
    report(diagnostics, Code::node_name_set,
           {kube::PointerPath() / "spec" / "nodeName", {}, "spec.nodeName", std::string(node)},
           fmt::format("spec.nodeName is set to {}, so no scheduler would allocate the GPU claim",
                       node),
           fmt::format("use a nodeSelector (kubernetes.io/hostname: {}) or node affinity instead",
                       node));
}

void check_environment(const PodView& pod, const std::vector<std::optional<ClaimShape>>& shapes,
                       const Settings& settings, Diagnostics& diagnostics) {
    for (std::size_t index = 0; index < pod.containers.size(); ++index) {
        if (!shapes[index]) continue;
        const ContainerView& container = pod.containers[index];
        const base::JsonView environment = container.json["env"];
        for (std::size_t place = 0; place < environment.size(); ++place) {
            const base::JsonView variable = environment.at(place);
            const VariableFate fate = fate_of(variable, settings);
            if (fate == VariableFate::kept) continue;
            const std::string_view name = variable["name"].string_or("");
            const std::string_view value = variable["value"].string_or("");
            const bool control = fate == VariableFate::control_disabled;
            report(diagnostics, control ? Code::control_disabled : Code::variable_ignored,
                   {container.path / "env" / place, container.name, std::string(name),
                    std::string(value)},
                   fmt::format("{}: variable {} {}", quoted_container(container), name,
                               control ? "does not switch the limits off any more"
                                       : "has no effect on devices and limits any more"));
        }
    }
}

void check_bookkeeping(base::JsonView pod, Diagnostics& diagnostics) {
    constexpr std::array names = {"hami.io/vgpu-node",
                                  "hami.io/vgpu-time",
                                  "hami.io/bind-time",
                                  "hami.io/bind-phase",
                                  "hami.io/vgpu-devices-to-allocate",
                                  "hami.io/vgpu-devices-allocated",
                                  "hami.io/vgpu-mig-allocations"};
    const base::JsonView annotations = annotations_of(pod);
    std::string found;
    for (const char* name : names) {
        if (annotations[name].is_missing()) continue;
        found += (found.empty() ? "" : ", ") + std::string(name);
    }
    if (found.empty()) return;
    std::string message = "annotations " + found + " are HAMi's own bookkeeping and are ignored";
    report(diagnostics, Code::bookkeeping_ignored,
           {kube::PointerPath() / "metadata" / "annotations", {}, std::move(found), {}},
           std::move(message));
}

void check_ephemeral(base::JsonView pod, const Settings& settings, Diagnostics& diagnostics) {
    const base::JsonView containers = pod["spec"]["ephemeralContainers"];
    const kube::PointerPath list = kube::PointerPath() / "spec" / "ephemeralContainers";
    for (std::size_t index = 0; index < containers.size(); ++index) {
        const base::JsonView container = containers.at(index);
        if (find_legacy(container, legacy_names(settings.resources)).empty()) continue;
        const std::string name(container["name"].string_or(""));
        report(diagnostics, Code::ephemeral_container,
               {list / index / "resources", name, "resources", {}},
               fmt::format("ephemeral container \"{}\" has GPU resources, which Kubernetes does "
                           "not allow; it is left as it is",
                           name));
    }
}

}  // namespace drawbridge::translate
