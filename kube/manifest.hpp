#pragma once
// Manifests as people keep them: YAML or JSON text, one or more documents, changed only where a
// patch says so.

#include "base/json.hpp"
#include "base/result.hpp"
#include "kube/json_patch.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::kube {

enum class ManifestFormat { yaml, json };

/// One document of a file.
struct Manifest {
    ManifestFormat format = ManifestFormat::yaml;
    std::size_t number = 1;  ///< of the document in its file, from 1; empty ones are left out and
                             ///< do not count
    std::size_t line = 1;    ///< where it starts in the file
    std::string text;        ///< its bytes as they came, without the `---` line
    std::string json;  ///< the same value as JSON, scalars resolved as Kubernetes' YAML reader does
};

/// Splits and reads a file. `path` of an error is `LINE:COLUMN`. Refused: bad YAML or JSON,
/// duplicate keys, aliases that expand without bound, non-string keys other than those the YAML
/// reader of Kubernetes turns into strings, over the limits (of which the bytes count for the whole
/// file, too).
[[nodiscard]] base::Result<std::vector<Manifest>> read_manifests(
    std::string_view text, const base::JsonLimits& limits = {});

/// A patched document.
struct PatchedManifest {
    std::string text;
    bool rewritten = false;  ///< the text could not be edited in place (anchors, merge keys):
                             ///< written anew
};

/// Applies a patch to a document's own text: comments, order and style stay wherever nothing
/// changed. Then leaves out the elements `dropped` (ascending) of `/items`.
[[nodiscard]] base::Result<PatchedManifest> patch_manifest(
    const Manifest& manifest, const JsonPatch& patch, std::span<const std::size_t> dropped = {});

/// JSON text as block-style YAML that Kubernetes reads back as the same value. Text that is no JSON
/// comes back as it is.
[[nodiscard]] std::string json_to_yaml(std::string_view json, std::size_t indent = 0);

}  // namespace drawbridge::kube
