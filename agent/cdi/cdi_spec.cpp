#include "agent/cdi/cdi_spec.hpp"

#include "agent/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::agent {
namespace {

using base::JsonWriter;

constexpr std::string_view file_prefix = "k8s.gpu.drawbridge.dev-claim_";
constexpr std::string_view file_suffix = ".json";

void write_texts(JsonWriter& out, std::string_view name, const std::vector<std::string>& texts) {
    if (texts.empty()) return;
    out.key(name).begin_array();
    for (const std::string& text : texts)
        out.string(text);
    out.end_array();
}

void write_nodes(JsonWriter& out, const std::vector<CdiNode>& nodes) {
    if (nodes.empty()) return;
    out.key("deviceNodes").begin_array();
    for (const CdiNode& node : nodes) {
        out.begin_object().member("path", node.path);
        if (!node.host_path.empty() && node.host_path != node.path)
            out.member("hostPath", node.host_path);
        if (node.major && node.minor) {
            out.member("type", "c").key("major").integer(*node.major);
            out.key("minor").integer(*node.minor);
        }
        out.end_object();
    }
    out.end_array();
}

void write_mounts(JsonWriter& out, const std::vector<CdiMount>& mounts) {
    if (mounts.empty()) return;
    out.key("mounts").begin_array();
    for (const CdiMount& mount : mounts) {
        out.begin_object().member("hostPath", mount.host_path);
        out.member("containerPath", mount.container_path);
        write_texts(out, "options", mount.options);
        out.end_object();
    }
    out.end_array();
}

void write_hooks(JsonWriter& out, const std::vector<CdiHook>& hooks) {
    if (hooks.empty()) return;
    out.key("hooks").begin_array();
    for (const CdiHook& hook : hooks) {
        out.begin_object().member("hookName", hook.name).member("path", hook.path);
        write_texts(out, "args", hook.args);
        write_texts(out, "env", hook.env);
        out.end_object();
    }
    out.end_array();
}

void write_edits(JsonWriter& out, const CdiEdits& edits) {
    out.key("containerEdits").begin_object();
    write_texts(out, "env", edits.env);
    write_nodes(out, edits.nodes);
    write_mounts(out, edits.mounts);
    write_hooks(out, edits.hooks);
    out.end_object();
}

/// Device names that begin with a digit, as UIDs may, and `hostPath` are of 0.5.0
/// (cdi:specs-go/version.go); every runtime that Kubernetes 1.35 runs on knows it.
constexpr std::string_view least_version = "0.5.0";

template <class T>
void add_new(std::vector<T>& all, const std::vector<T>& more) {
    for (const T& one : more) {
        if (std::ranges::find(all, one) == all.end()) all.push_back(one);
    }
}

CdiNode read_node(JsonReader& reader, const Spot& at) {
    // What says only what a runtime finds out itself is passed by.
    reader.members(at, {"path", "hostPath", "type", "major", "minor", "fileMode", "permissions",
                        "uid", "gid"});
    CdiNode node{.path = reader.text(at["path"]), .host_path = reader.text_or(at["hostPath"], "")};
    if (!at["major"].is_absent() && !at["minor"].is_absent()) {
        node.major = reader.whole(at["major"], {});
        node.minor = reader.whole(at["minor"], {});
    }
    return node;
}

CdiMount read_mount(JsonReader& reader, const Spot& at) {
    reader.members(at, {"hostPath", "containerPath", "options", "type"});
    const std::string type = reader.text_or(at["type"], "bind");
    if (type != "bind" && type != "none") reader.refuse(at["type"], "bind mounts are expected");
    return {.host_path = reader.text(at["hostPath"]),
            .container_path = reader.text(at["containerPath"]),
            .options = reader.texts(at["options"])};
}

CdiHook read_hook(JsonReader& reader, const Spot& at) {
    reader.members(at, {"hookName", "path", "args", "env", "timeout"});
    return {.name = reader.text(at["hookName"]),
            .path = reader.text(at["path"]),
            .args = reader.texts(at["args"]),
            .env = reader.texts(at["env"])};
}

CdiEdits read_edits(JsonReader& reader, const Spot& at) {
    CdiEdits edits;
    if (at.is_absent()) return edits;
    reader.members(at, {"env", "deviceNodes", "mounts", "hooks"});
    edits.env = reader.texts(at["env"]);
    for (const Spot& node : reader.list(at["deviceNodes"]))
        edits.nodes.push_back(read_node(reader, node));
    for (const Spot& mount : reader.list(at["mounts"]))
        edits.mounts.push_back(read_mount(reader, mount));
    for (const Spot& hook : reader.list(at["hooks"]))
        edits.hooks.push_back(read_hook(reader, hook));
    return edits;
}

}  // namespace

std::string cdi_file_name(std::string_view claim_uid) {
    return fmt::format("{}{}{}", file_prefix, claim_uid, file_suffix);
}

std::optional<std::string> claim_of_cdi_file(std::string_view file_name) {
    if (!file_name.starts_with(file_prefix) || !file_name.ends_with(file_suffix) ||
        file_name.size() <= file_prefix.size() + file_suffix.size())
        return std::nullopt;
    file_name.remove_prefix(file_prefix.size());
    file_name.remove_suffix(file_suffix.size());
    return std::string(file_name);
}

std::string cdi_id(std::string_view device_name) {
    return fmt::format("{}={}", cdi_kind, device_name);
}

std::string cdi_json(const CdiSpec& spec) {
    JsonWriter out;
    out.begin_object().member("cdiVersion", least_version).member("kind", cdi_kind);
    if (!spec.common.empty()) write_edits(out, spec.common);
    out.key("devices").begin_array();
    for (const CdiDevice& device : spec.devices) {
        out.begin_object().member("name", device.name);
        write_edits(out, device.edits);
        out.end_object();
    }
    out.end_array().end_object();
    return out.take() + "\n";
}

void add_edits(CdiEdits& edits, const CdiEdits& more) {
    add_new(edits.env, more.env);
    add_new(edits.nodes, more.nodes);
    add_new(edits.mounts, more.mounts);
    add_new(edits.hooks, more.hooks);
}

base::Result<CdiSpec> read_cdi_spec(base::JsonView document) {
    JsonReader reader;
    const Spot root{document};
    CdiSpec spec;
    spec.common = read_edits(reader, root["containerEdits"]);
    for (const Spot& at : reader.list(root["devices"]))
        spec.devices.push_back(
            {.name = reader.text(at["name"]), .edits = read_edits(reader, at["containerEdits"])});
    if (!reader.ok()) return reader.error();
    return spec;
}

}  // namespace drawbridge::agent
