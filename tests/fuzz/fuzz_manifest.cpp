// Manifests of any content: what is read can be written, and a change in place is the change that
// was asked for.

#include "base/json.hpp"
#include "kube/manifest.hpp"
#include "tests/fuzz/laws.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

using drawbridge::fuzz::law;
namespace base = drawbridge::base;
namespace kube = drawbridge::kube;

namespace {

/// The value, if the referee can hold it (it refuses numbers beyond double).
std::optional<nlohmann::json> value_of(const std::string& text) {
    auto value = nlohmann::json::parse(text, nullptr, false);
    if (value.is_discarded()) return std::nullopt;
    return value;
}

void check_same(const std::string& text, const std::string& wanted, std::string_view what,
                const std::string& detail) {
    const auto read = kube::read_manifests(text);
    law(read.has_value(), what, detail + "\n--- unreadable:\n" + text);
    law(read->size() == 1, what, detail + "\n--- not one document:\n" + text);
    const auto left = value_of(read->front().json);
    const auto right = value_of(wanted);
    law(!left || !right || *left == *right, what, detail + "\n--- became:\n" + text);
}

/// Removes one member, chosen by the size of the input, from the first object that has any.
void check_removal(const kube::Manifest& manifest, base::JsonView root, std::size_t choice) {
    kube::PointerPath path;
    auto place = root;
    for (int depth = 0; depth < 8; ++depth) {
        const auto members = place.members();
        if (members.empty()) break;
        const auto& member = members[choice % members.size()];
        path = path / member.key;
        place = member.value;
        if (!place.is_object() || depth % 3 == static_cast<int>(choice % 3)) break;
    }
    if (path.text().empty()) return;
    kube::JsonPatch patch;
    patch.remove(path);
    const auto wanted = kube::apply_patch(manifest.json, patch);
    law(wanted.has_value(), "the patch applies to the value", manifest.json);
    const auto patched = kube::patch_manifest(manifest, patch);
    if (!patched) return;
    check_same(patched->text, *wanted, "the removal of " + path.text() + " and nothing else",
               manifest.text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const auto manifests = kube::read_manifests(text);
    if (!manifests) return 0;
    for (const auto& manifest : *manifests) {
        const auto document = base::parse_json(manifest.json);
        law(document.has_value(), "a manifest's value is JSON", manifest.json);
        if (!document->root().is_object()) continue;
        check_same(kube::json_to_yaml(manifest.json), manifest.json,
                   "what is written as YAML reads the same", manifest.json);
        check_removal(manifest, document->root(), size);
    }
    return 0;
}
