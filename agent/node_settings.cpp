#include "agent/node_settings.hpp"

#include "agent/json_reader.hpp"
#include "kube/manifest.hpp"

namespace drawbridge::agent {
namespace {

using base::Result;

constexpr std::size_t max_file = 1U << 20U;
constexpr Range split_range{1, 1024};
constexpr double max_scaling = 100;
constexpr Range headroom_range{0, 1 << 20};
constexpr Range cores_range{1, 100};
constexpr Range longest_pause_range{1, 86400};
constexpr Range pause_break_range{0, 3600};

void read_filter(JsonReader& reader, const Spot& uuids, const Spot& indices, DeviceFilter& filter) {
    if (!uuids.is_absent()) filter.uuids = reader.texts(uuids);
    if (indices.is_absent()) return;
    filter.indices.clear();
    for (const Spot& at : reader.list(indices))
        filter.indices.push_back(reader.whole(at, {0, 4095}));
}

/// The fields of ours that both the document and a node's entry may have.
void read_own(JsonReader& reader, const Spot& at, NodeSettings& settings) {
    settings.split_count = reader.whole_or(at["splitCount"], split_range, settings.split_count);
    settings.memory_scaling =
        reader.factor_or(at["memoryScaling"], max_scaling, settings.memory_scaling);
    settings.core_scaling = reader.factor_or(at["coreScaling"], max_scaling, settings.core_scaling);
    settings.headroom_mib =
        reader.whole_or(at["headroomMiB"], headroom_range, settings.headroom_mib);
    settings.accept_memory_sizes =
        reader.boolean_or(at["acceptMemorySizes"], settings.accept_memory_sizes);
    PauseTimes& pauses = settings.rules.pauses;
    pauses.longest =
        reader.whole_or(at["longestPauseSeconds"], longest_pause_range, pauses.longest);
    pauses.free = reader.whole_or(at["pauseBreakSeconds"], pause_break_range, pauses.free);
    settings.replace_libcuda = reader.boolean_or(at["replaceLibcuda"], settings.replace_libcuda);
    const Spot exclude = at["exclude"];
    if (exclude.is_absent()) return;
    reader.members(exclude, {"uuids", "indices"});
    read_filter(reader, exclude["uuids"], exclude["indices"], settings.exclude);
}

LimitRule read_limit(JsonReader& reader, const Spot& at) {
    reader.members(at, {"namespace", "pod", "claim", "memory", "cores"});
    LimitRule rule{.name_space = reader.text(at["namespace"]),
                   .pod = reader.text_or(at["pod"], ""),
                   .claim = reader.text_or(at["claim"], "")};
    if (!at["memory"].is_absent()) rule.memory_bytes = reader.bytes(at["memory"]);
    if (!at["cores"].is_absent()) rule.cores = reader.whole(at["cores"], cores_range);
    if (!rule.memory_bytes && !rule.cores) reader.refuse(at, "names neither memory nor cores");
    return rule;
}

void read_own_document(JsonReader& reader, const Spot& root, std::string_view node,
                       NodeSettings& settings) {
    reader.kind(root, "drawbridge.dev/v1", "AgentSettings");
    reader.members(root,
                   {"apiVersion", "kind", "metadata", "splitCount", "memoryScaling", "coreScaling",
                    "headroomMiB", "acceptMemorySizes", "replaceLibcuda", "longestPauseSeconds",
                    "pauseBreakSeconds", "exclude", "limits", "nodes"});
    read_own(reader, root, settings);
    for (const Spot& at : reader.list(root["limits"]))
        settings.rules.limits.push_back(read_limit(reader, at));
    for (const Spot& at : reader.list(root["nodes"])) {
        reader.members(at, {"name", "splitCount", "memoryScaling", "coreScaling", "headroomMiB",
                            "acceptMemorySizes", "replaceLibcuda", "longestPauseSeconds",
                            "pauseBreakSeconds", "exclude"});
        NodeSettings read = settings;
        read_own(reader, at, read);  // so that another node's entry is checked too
        if (reader.text(at["name"]) == node) settings = read;
    }
}

/// HAMi knows more fields than we do, and a later one more still: those are passed by.
void read_hami_global(JsonReader& reader, const Spot& nvidia, NodeSettings& settings) {
    settings.split_count =
        reader.whole_or(nvidia["deviceSplitCount"], split_range, settings.split_count);
    settings.memory_scaling =
        reader.factor_or(nvidia["deviceMemoryScaling"], max_scaling, settings.memory_scaling);
    settings.core_scaling =
        reader.factor_or(nvidia["deviceCoreScaling"], max_scaling, settings.core_scaling);
}

/// HAMi writes zero, or nothing, where an entry leaves a value to the global one.
bool is_given(const Spot& spot) {
    return !spot.is_absent() && spot.view.scalar_text() != "0";
}

void read_hami_nodes(JsonReader& reader, const Spot& nodes, std::string_view node,
                     NodeSettings& settings) {
    for (const Spot& at : reader.list(nodes)) {
        if (at.view["name"].as_string() != node) continue;
        if (is_given(at["devicesplitcount"]))
            settings.split_count = reader.whole(at["devicesplitcount"], split_range);
        if (is_given(at["devicememoryscaling"]))
            settings.memory_scaling =
                reader.factor_or(at["devicememoryscaling"], max_scaling, settings.memory_scaling);
        if (is_given(at["devicecorescaling"]))
            settings.core_scaling =
                reader.factor_or(at["devicecorescaling"], max_scaling, settings.core_scaling);
        const Spot filter = at["filterdevices"];
        read_filter(reader, filter["uuid"], filter["index"], settings.exclude);
    }
}

Result<void> read_document(base::JsonView document, std::string_view node, NodeSettings& settings);

/// Every document in the data of a ConfigMap, in the order of its keys' text.
Result<void> read_config_map(base::JsonView data, std::string_view node, NodeSettings& settings) {
    for (const base::JsonMember& member : data.members()) {
        const auto text = member.value.as_string();
        if (!text) continue;
        const auto manifests = kube::read_manifests(*text, {.max_bytes = max_file});
        if (!manifests) return tl::unexpected(manifests.error());
        for (const kube::Manifest& manifest : *manifests) {
            const auto inner = base::parse_json(manifest.json, {.max_bytes = 4 * max_file});
            if (!inner) return tl::unexpected(inner.error());
            if (inner->root()["kind"].as_string() == "ConfigMap")
                return base::fail(base::ErrorKind::invalid_input, "a ConfigMap in a ConfigMap");
            auto read = read_document(inner->root(), node, settings);
            if (!read) return read;
        }
    }
    return {};
}

Result<void> read_document(base::JsonView document, std::string_view node, NodeSettings& settings) {
    const Spot root{document};
    if (document["kind"].as_string() == "ConfigMap")
        return read_config_map(document["data"], node, settings);
    JsonReader reader;
    if (document["nodeconfig"].is_array()) {
        read_hami_nodes(reader, root["nodeconfig"], node, settings);
    } else if (document["nvidia"].is_object()) {
        read_hami_global(reader, root["nvidia"], settings);
    } else {
        read_own_document(reader, root, node, settings);
    }
    if (!reader.ok()) return reader.error();
    return {};
}

}  // namespace

Result<NodeSettings> read_node_settings(base::JsonView document, std::string_view node) {
    NodeSettings settings;
    auto read = read_document(document, node, settings);
    if (!read) return tl::unexpected(read.error());
    return settings;
}

Result<void> add_node_settings(NodeSettings& settings, std::string_view text,
                               std::string_view node) {
    const auto manifests = kube::read_manifests(text, {.max_bytes = max_file});
    if (!manifests) return tl::unexpected(manifests.error());
    for (const kube::Manifest& manifest : *manifests) {
        const auto document = base::parse_json(manifest.json, {.max_bytes = 4 * max_file});
        if (!document) return tl::unexpected(document.error());
        if (auto read = read_document(document->root(), node, settings); !read) return read;
    }
    return {};
}

Result<NodeSettings> parse_node_settings(std::string_view text, std::string_view node) {
    NodeSettings settings;
    auto read = add_node_settings(settings, text, node);
    if (!read) return tl::unexpected(read.error());
    return settings;
}

}  // namespace drawbridge::agent
