#include "translate/original.hpp"

#include "kube/quantity.hpp"

#include <algorithm>

namespace drawbridge::translate {

namespace {

constexpr base::JsonLimits limits{256U << 10U, 16};

void write_figures(base::JsonWriter& writer, std::string_view list, base::JsonView values,
                   const std::vector<std::string_view>& names) {
    if (names.empty()) return;
    writer.key(list).begin_object();
    for (const std::string_view name : names) {
        const base::JsonView value = values[name];
        writer.member(name,
                      value.is_absent() ? "0" : value.scalar_text().value_or(value.to_json()));
    }
    writer.end_object();
}

bool same_figures(base::JsonView values, const std::vector<std::string_view>& names,
                  base::JsonView original) {
    if (original.members().size() != names.size()) return false;
    return std::ranges::all_of(names, [&](std::string_view name) {
        const auto now = kube::parse_quantity(values[name].scalar_text().value_or("0"));
        const auto then = kube::parse_quantity(original[name].scalar_text().value_or(""));
        return now && then && *now == *then;
    });
}

}  // namespace

std::string write_original(const PodView& pod, const std::vector<LegacyEntries>& entries,
                           std::string_view scheduler, base::JsonView earlier) {
    base::JsonWriter writer;
    writer.begin_object().key("v").integer(1).key("containers").begin_object();
    for (std::size_t index = 0; index < pod.containers.size(); ++index) {
        const ContainerView& container = pod.containers[index];
        const base::JsonView before = earlier["containers"][container.name];
        if (entries[index].empty()) {
            if (before.is_object()) writer.key(container.name).raw(before.to_json());
            continue;
        }
        const base::JsonView resources = container.json["resources"];
        writer.key(container.name).begin_object();
        write_figures(writer, "limits", resources["limits"], entries[index].limits);
        write_figures(writer, "requests", resources["requests"], entries[index].requests);
        writer.end_object();
    }
    writer.end_object();
    if (scheduler.empty()) scheduler = earlier["schedulerName"].string_or("");
    if (!scheduler.empty()) writer.member("schedulerName", scheduler);
    return writer.end_object().take();
}

std::optional<base::JsonDocument> read_original(base::JsonView pod) {
    const auto text = annotations_of(pod)[original_annotation].as_string();
    if (!text) return std::nullopt;
    auto document = base::parse_json(std::string(*text), limits);
    if (!document || document->root()["v"].as_int() != 1) return std::nullopt;
    return std::move(*document);
}

bool same_as_original(const ContainerView& container, const LegacyEntries& entries,
                      base::JsonView original) {
    const base::JsonView before = original["containers"][container.name];
    const base::JsonView now = container.json["resources"];
    return before.is_object() && same_figures(now["limits"], entries.limits, before["limits"]) &&
           same_figures(now["requests"], entries.requests, before["requests"]);
}

std::string restore_request(const PodView& pod, base::JsonView original) {
    base::JsonWriter writer;
    const auto write_list = [&](std::string_view list, bool main) {
        writer.key(list).begin_array();
        for (const ContainerView& container : pod.containers) {
            if ((container.kind == ContainerKind::main) != main) continue;
            writer.begin_object().member("name", container.name);
            if (container.kind == ContainerKind::sidecar) writer.member("restartPolicy", "Always");
            const base::JsonView before = original["containers"][container.name];
            if (before.is_object()) writer.key("resources").raw(before.to_json());
            writer.end_object();
        }
        writer.end_array();
    };
    writer.begin_object();
    if (const base::JsonView annotations = annotations_of(pod.pod); annotations.is_object()) {
        writer.key("metadata").begin_object().key("annotations").raw(annotations.to_json());
        writer.end_object();
    }
    writer.key("spec").begin_object();
    write_list("initContainers", false);
    write_list("containers", true);
    return writer.end_object().end_object().take();
}

}  // namespace drawbridge::translate
