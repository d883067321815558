#pragma once
// A JSON patch (RFC 6902) in the form we write it, and its application to the text of a document.

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::kube {

/// A JSON pointer built token by token, each token escaped.
class PointerPath {
public:
    PointerPath() = default;
    explicit PointerPath(std::string_view escaped) : text_(escaped) {}

    [[nodiscard]] PointerPath operator/(std::string_view token) const&;
    [[nodiscard]] PointerPath operator/(std::string_view token) &&;
    [[nodiscard]] PointerPath operator/(std::size_t index) const&;
    [[nodiscard]] PointerPath operator/(std::size_t index) &&;
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

enum class PatchKind { add, remove, replace };

struct PatchOperation {
    PatchKind kind = PatchKind::add;
    std::string path;
    std::string value;  ///< JSON text; empty for remove
};

/// Operations that do not depend on each other: every path but a trailing `/-` names a place of the
/// *original* document (or a member to add to an object of it), never something an earlier
/// operation made; nothing is removed twice and array elements are only appended or replaced. So
/// the operations can be applied to text in one pass.
class JsonPatch {
public:
    void add(const PointerPath& path, std::string json);
    void remove(const PointerPath& path);
    void replace(const PointerPath& path, std::string json);

    /// Adds the operations of a patch for other places of the same document.
    void append(JsonPatch other);

    [[nodiscard]] bool empty() const { return operations_.empty(); }
    [[nodiscard]] const std::vector<PatchOperation>& operations() const { return operations_; }
    /// The patch as an API server takes it.
    [[nodiscard]] std::string to_json() const;
    /// The same patch for a document in which the patched one lies at `prefix`.
    [[nodiscard]] JsonPatch below(const PointerPath& prefix) const;

private:
    std::vector<PatchOperation> operations_;
};

/// Applies a patch to JSON text by editing the text at the places named: everything else keeps its
/// bytes. Fails with the pointer where a path does not exist. `add` of a member that exists
/// replaces it (RFC 6902).
[[nodiscard]] base::Result<std::string> apply_patch(std::string_view document,
                                                    const JsonPatch& patch);

/// The texts of the elements of the array that a member of the document holds, byte for byte;
/// nothing where there is no such array.
[[nodiscard]] std::vector<std::string_view> element_texts(std::string_view document,
                                                          std::string_view name);

}  // namespace drawbridge::kube
