#include "cli/output.hpp"

#include "base/check.hpp"
#include "base/json.hpp"

#include <algorithm>

namespace drawbridge::cli {

void Output::document(std::string text) {
    parts_.push_back(std::move(text));
}

void Output::object(const std::string& json) {
    parts_.push_back(json);
}

void Output::claim_template(const kube::ClaimTemplate& claim_template,
                            const std::string& name_space) {
    if (!known_.emplace(name_space, claim_template.name).second) return;
    std::string json =
        kube::to_json(claim_template, name_space, kube::TemplateWriter::command_line);
    document(form_ == OutputForm::json ? std::move(json) : kube::json_to_yaml(json));
}

void Output::unchanged(const kube::Manifest& manifest) {
    document(form_ == OutputForm::json ? manifest.json : manifest.text);
}

base::Result<bool> Output::changed(const kube::Manifest& manifest, const kube::JsonPatch& patch) {
    if (form_ == OutputForm::json) {
        auto json = kube::apply_patch(manifest.json, patch);
        if (!json) return tl::unexpected(json.error());
        document(std::move(*json));
        return false;
    }
    auto patched = kube::patch_manifest(manifest, patch);
    if (!patched) return tl::unexpected(patched.error());
    document(std::move(patched->text));
    return patched->rewritten;
}

void Output::list_without(const std::string& list_json, const std::vector<std::size_t>& left_out) {
    const auto list = base::parse_json(list_json, {list_json.size() + 1, 128});
    CHECK(list.has_value());  // it was parsed and patched by us
    const auto elements = kube::element_texts(list_json, "items");
    base::JsonWriter writer;
    writer.begin_object();
    for (const auto& [key, value] : list->root().members()) {
        writer.key(key);
        if (key != "items") {
            writer.raw(value.to_json());
            continue;
        }
        writer.begin_array();
        for (std::size_t index = 0; index < elements.size(); ++index) {
            if (std::ranges::find(left_out, index) == left_out.end()) writer.raw(elements[index]);
        }
        writer.end_array();
    }
    document(kube::json_to_yaml(writer.end_object().take()));
}

std::string Output::text() const {
    if (form_ == OutputForm::json) {
        base::JsonWriter writer;
        writer.begin_object().member("apiVersion", "v1").member("kind", "List");
        writer.key("items").begin_array();
        for (const std::string& part : parts_)
            writer.raw(part);
        return base::indent_json(writer.end_array().end_object().take()) + "\n";
    }
    std::string all;
    for (const std::string& part : parts_) {
        if (!all.empty()) {
            if (!all.ends_with('\n')) all += '\n';
            all += "---\n";
        }
        all += part;
    }
    return all;
}

}  // namespace drawbridge::cli
