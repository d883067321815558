#include "translate/build_patch.hpp"

#include "translate/original.hpp"

#include <algorithm>

namespace drawbridge::translate {

namespace {

std::string quoted(std::string_view text) {
    std::string json;
    base::append_json_string(json, text);
    return json;
}

void strip_list(kube::JsonPatch& patch, const kube::PointerPath& path, base::JsonView map,
                const std::vector<std::string_view>& names) {
    if (names.empty()) return;
    if (map.members().size() == names.size()) {
        patch.remove(path);
        return;
    }
    for (const std::string_view name : names)
        patch.remove(path / name);
}

/// Appends to the array at `path`, or adds it with all elements where there is none (or null).
void append_all(kube::JsonPatch& patch, const kube::PointerPath& path, base::JsonView array,
                const std::vector<std::string>& elements) {
    if (elements.empty()) return;
    if (array.is_array()) {
        for (const std::string& element : elements)
            patch.add(path / "-", element);
        return;
    }
    std::string json = "[";
    for (const std::string& element : elements)
        json += (json.size() > 1 ? "," : "") + element;
    patch.add(path, json + "]");
}

std::string named(std::string_view key, std::string_view name, std::string_view other,
                  std::string_view value) {
    base::JsonWriter writer;
    writer.begin_object().member(key, name);
    if (!other.empty()) writer.member(other, value);
    return writer.end_object().take();
}

void reference_claim(kube::JsonPatch& patch, const ContainerView& container,
                     const std::string& claim) {
    const base::JsonView resources = container.json["resources"];
    const std::string entry = named("name", claim, {}, {});
    const kube::PointerPath path = container.path / "resources";
    if (resources.is_object()) {
        append_all(patch, path / "claims", resources["claims"], {entry});
    } else {
        patch.add(path, "{\"claims\":[" + entry + "]}");
    }
}

/// Sets variables: an entry of the name is replaced rather than followed by a second one (R13).
void set_environment(kube::JsonPatch& patch, const ContainerView& container,
                     const std::vector<std::pair<std::string, std::string>>& variables) {
    const base::JsonView environment = container.json["env"];
    const kube::PointerPath path = container.path / "env";
    std::vector<std::string> added;
    for (const auto& [name, value] : variables) {
        bool found = false;
        for (std::size_t index = 0; index < environment.size(); ++index) {
            const base::JsonView entry = environment.at(index);
            if (entry["name"].string_or("") != name) continue;
            found = true;
            const bool same =
                entry["value"].string_or("\n") == value && entry["valueFrom"].is_absent();
            if (!same) patch.replace(path / index, named("name", name, "value", value));
        }
        if (!found) added.push_back(named("name", name, "value", value));
    }
    append_all(patch, path, environment, added);
}

void annotate(kube::JsonPatch& patch, base::JsonView pod, const std::string& text) {
    const kube::PointerPath metadata = kube::PointerPath() / "metadata";
    const std::string member = quoted(original_annotation) + ":" + quoted(text);
    if (!pod["metadata"].is_object()) {
        patch.add(metadata, "{\"annotations\":{" + member + "}}");
    } else if (!annotations_of(pod).is_object()) {
        patch.add(metadata / "annotations", "{" + member + "}");
    } else {
        patch.add(metadata / "annotations" / original_annotation, quoted(text));
    }
}

}  // namespace

void strip_legacy(kube::JsonPatch& patch, const ContainerView& container,
                  const LegacyEntries& entries) {
    const base::JsonView resources = container.json["resources"];
    const kube::PointerPath path = container.path / "resources";
    strip_list(patch, path / "limits", resources["limits"], entries.limits);
    strip_list(patch, path / "requests", resources["requests"], entries.requests);
}

kube::JsonPatch build_patch(const PodView& pod, const PodChange& change) {
    kube::JsonPatch patch;
    for (std::size_t index = 0; index < pod.containers.size(); ++index) {
        const ContainerView& container = pod.containers[index];
        const ContainerChange& what = change.containers[index];
        strip_legacy(patch, container, what.strip);
        if (!what.claim.empty()) reference_claim(patch, container, what.claim);
        set_environment(patch, container, what.environment);
    }
    const kube::PointerPath spec = kube::PointerPath() / "spec";
    std::vector<std::string> entries;
    for (const auto& [name, claim_template] : change.claims) {
        entries.push_back(named("name", name, "resourceClaimTemplateName", claim_template));
    }
    append_all(patch, spec / "resourceClaims", pod.pod["spec"]["resourceClaims"], entries);
    if (!change.scheduler.empty()) patch.add(spec / "schedulerName", quoted(change.scheduler));
    if (!change.runtime_class.empty()) {
        patch.add(spec / "runtimeClassName", quoted(change.runtime_class));
    }
    if (!change.original.empty()) annotate(patch, pod.pod, change.original);
    return patch;
}

EntryNames::EntryNames(base::JsonView pod) {
    const base::JsonView entries = pod["spec"]["resourceClaims"];
    for (std::size_t index = 0; index < entries.size(); ++index) {
        taken_.emplace(entries.at(index)["name"].string_or(""));
    }
}

std::string EntryNames::take(const std::string& wanted) {
    std::string name = wanted;
    for (int number = 2; !taken_.insert(name).second; ++number) {
        name = wanted + "-" + std::to_string(number);
    }
    return name;
}

}  // namespace drawbridge::translate
