#include "kube/json_patch.hpp"

#include "base/json.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace drawbridge::kube {

namespace {

std::string_view name(PatchKind kind) {
    switch (kind) {
        case PatchKind::add:
            return "add";
        case PatchKind::remove:
            return "remove";
        case PatchKind::replace:
            return "replace";
    }
    return "";
}

}  // namespace

PointerPath PointerPath::operator/(std::string_view token) const& {
    return PointerPath(*this) / token;
}

PointerPath PointerPath::operator/(std::string_view token) && {
    text_ += '/';
    if (token.find_first_of("~/") == std::string_view::npos) {
        text_ += token;
    } else {
        text_ += base::escape_pointer(token);
    }
    return std::move(*this);
}

PointerPath PointerPath::operator/(std::size_t index) const& {
    return PointerPath(*this) / index;
}

PointerPath PointerPath::operator/(std::size_t index) && {
    return std::move(*this) / std::string_view(std::to_string(index));
}

void JsonPatch::add(const PointerPath& path, std::string json) {
    operations_.push_back({PatchKind::add, path.text(), std::move(json)});
}

void JsonPatch::remove(const PointerPath& path) {
    operations_.push_back({PatchKind::remove, path.text(), {}});
}

void JsonPatch::replace(const PointerPath& path, std::string json) {
    operations_.push_back({PatchKind::replace, path.text(), std::move(json)});
}

std::string JsonPatch::to_json() const {
    base::JsonWriter writer;
    writer.begin_array();
    for (const PatchOperation& operation : operations_) {
        writer.begin_object().member("op", name(operation.kind)).member("path", operation.path);
        if (operation.kind != PatchKind::remove) writer.key("value").raw(operation.value);
        writer.end_object();
    }
    return writer.end_array().take();
}

void JsonPatch::append(JsonPatch other) {
    std::ranges::move(other.operations_, std::back_inserter(operations_));
}

JsonPatch JsonPatch::below(const PointerPath& prefix) const {
    JsonPatch patch = *this;
    for (PatchOperation& operation : patch.operations_)
        operation.path.insert(0, prefix.text());
    return patch;
}

}  // namespace drawbridge::kube
