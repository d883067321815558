#pragma once
// One object of the input: where it came from, who it is, and what the core says of it.

#include "base/json.hpp"
#include "kube/claim_model.hpp"
#include "kube/json_patch.hpp"
#include "translate/translate.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::cli {

/// Where an object stands in the input.
struct Origin {
    std::string file;
    std::size_t document = 1;         ///< from 1
    std::optional<std::size_t> item;  ///< from 0, inside a List
};

/// How an object is named in notices.
struct Identity {
    std::string kind;
    std::string name_space;  ///< the object's, else that of `-n`; may be empty
    std::string name;
    std::string generate_name;  ///< only where there is no name
};

[[nodiscard]] Identity identify(base::JsonView object, const std::string& default_namespace);

/// Labels of the namespaces that the input holds, by name.
using NamespaceLabels = std::map<std::string, std::map<std::string, std::string>>;

/// A template that a pod of the object names already.
struct TemplateReference {
    std::string name;
    kube::PointerPath pod;  ///< place of the pod in the object
};

/// The answer to one object: that of its worst pod template.
struct ObjectAnswer {
    translate::Verdict verdict = translate::Verdict::leave;
    std::vector<kube::ClaimTemplate> templates;
    kube::JsonPatch patch;               ///< relative to the object
    translate::Diagnostics diagnostics;  ///< paths relative to the object
    std::vector<TemplateReference> referenced_templates;
    std::vector<kube::ClaimTemplate> restorable;

    /// Denies the object: nothing of it is written.
    void deny();
};

/// What objects are translated with.
struct TranslateContext {
    translate::Settings settings;
    translate::Cluster cluster;
    NamespaceLabels namespace_labels;
};

/// Translates all pod templates of an object; other kinds are left, with a warning where a legacy
/// name stands in them.
[[nodiscard]] ObjectAnswer translate_object(base::JsonView object, const Identity& identity,
                                            const TranslateContext& context);

}  // namespace drawbridge::cli
