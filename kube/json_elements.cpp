// Finds the elements of an array in JSON text.

#include "base/json.hpp"
#include "kube/json_cursor.hpp"
#include "kube/json_patch.hpp"

namespace drawbridge::kube {

namespace {

/// Goes to the value of a member of the object at the cursor.
bool find_member(JsonCursor& cursor, std::string_view document, std::string_view name) {
    std::string wanted;
    base::append_json_string(wanted, name);
    cursor.skip_space();
    if (!cursor.take('{')) return false;
    do {
        cursor.skip_space();
        const std::size_t begin = cursor.position();
        if (!cursor.skip_string()) return false;
        const std::string_view key = document.substr(begin, cursor.position() - begin);
        cursor.skip_space();
        if (!cursor.take(':')) return false;
        cursor.skip_space();
        if (key == wanted) return true;
        if (!cursor.skip_value()) return false;
        cursor.skip_space();
    } while (cursor.take(','));
    return false;
}

}  // namespace

std::vector<std::string_view> element_texts(std::string_view document, std::string_view name) {
    std::vector<std::string_view> elements;
    JsonCursor cursor(document);
    if (!find_member(cursor, document, name) || !cursor.take('[')) return elements;
    cursor.skip_space();
    if (cursor.peek() == ']') return elements;
    do {
        cursor.skip_space();
        const std::size_t begin = cursor.position();
        if (!cursor.skip_value()) break;
        elements.push_back(document.substr(begin, cursor.position() - begin));
        cursor.skip_space();
    } while (cursor.take(','));
    return elements;
}

}  // namespace drawbridge::kube
