#include "cli/output.hpp"

#include "base/json.hpp"

namespace drawbridge::cli {

void Output::part(std::string text) {
    parts_.push_back(std::move(text));
}

void Output::claim_template(const kube::ClaimTemplate& claim_template,
                            const std::string& name_space) {
    if (!known_.emplace(name_space, claim_template.name).second) return;
    std::string json =
        kube::to_json(claim_template, name_space, kube::TemplateWriter::command_line);
    part(form_ == OutputForm::json ? std::move(json) : kube::json_to_yaml(json));
}

void Output::unchanged(const kube::Manifest& manifest) {
    part(form_ == OutputForm::json ? manifest.json : manifest.text);
}

base::Result<bool> Output::changed(const kube::Manifest& manifest, const kube::JsonPatch& patch,
                                   const std::vector<std::size_t>& left_out) {
    if (form_ == OutputForm::json) {
        auto json = kube::apply_patch(manifest.json, patch);
        if (!json) return tl::unexpected(json.error());
        part(std::move(*json));
        return false;
    }
    auto patched = kube::patch_manifest(manifest, patch, left_out);
    if (!patched) return tl::unexpected(patched.error());
    part(std::move(patched->text));
    return patched->rewritten;
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
