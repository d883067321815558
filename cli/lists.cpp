#include "cli/lists.hpp"

#include "kube/json_patch.hpp"

#include <fmt/format.h>

#include <vector>

namespace drawbridge::cli {

namespace {

/// The items of a list, those of lists inside it in their place.
void collect_items(base::JsonView list, std::string_view text, std::vector<std::string>& items) {
    const auto texts = kube::element_texts(text, "items");
    for (std::size_t index = 0; index < texts.size(); ++index) {
        const base::JsonView item = list["items"].at(index);
        if (is_list(item)) {
            collect_items(item, texts[index], items);
        } else {
            items.push_back(whole_item(list, item, texts[index]));
        }
    }
}

}  // namespace

bool is_list(base::JsonView object) {
    return object["kind"].string_or("").ends_with("List") && object["items"].is_array();
}

std::string whole_item(base::JsonView list, base::JsonView item, std::string_view text) {
    std::string_view kind = list["kind"].string_or("");
    kind.remove_suffix(std::string_view("List").size());
    if (kind.empty() || !item.is_object() || !item["kind"].is_missing()) return std::string(text);
    base::JsonWriter writer;
    writer.begin_object();
    if (item["apiVersion"].is_missing()) {
        writer.member("apiVersion", list["apiVersion"].string_or(""));
    }
    std::string whole = writer.member("kind", kind).take();
    if (!item.members().empty()) whole += ',';
    return whole.append(text.substr(1));
}

bool flatten(kube::Manifest& manifest, base::JsonView root) {
    if (!is_list(root)) return false;
    bool nested = false;
    for (std::size_t index = 0; index < root["items"].size(); ++index)
        nested = nested || is_list(root["items"].at(index));
    if (!nested) return false;
    std::vector<std::string> items;
    collect_items(root, manifest.json, items);
    manifest.json =
        fmt::format(R"({{"apiVersion":"v1","kind":"List","items":[{}]}})", fmt::join(items, ","));
    const bool yaml = manifest.format == kube::ManifestFormat::yaml;
    manifest.text = yaml ? kube::json_to_yaml(manifest.json) : manifest.json;
    return true;
}

}  // namespace drawbridge::cli
