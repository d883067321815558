// Comparing values of base/json.hpp.

#include "base/json.hpp"

#include <algorithm>

namespace drawbridge::base {
namespace {

/// Members pair by pair where both sides have them in one order, else sorted by name: never one
/// look-up a member, which would be quadratic.
bool same_members(std::vector<JsonMember> left, std::vector<JsonMember> right) {
    if (left.size() != right.size()) return false;
    if (!std::ranges::equal(left, right, {}, &JsonMember::key, &JsonMember::key)) {
        std::ranges::sort(left, {}, &JsonMember::key);
        std::ranges::sort(right, {}, &JsonMember::key);
    }
    return std::ranges::equal(left, right, [](const JsonMember& a, const JsonMember& b) {
        return a.key == b.key && same_value(a.value, b.value);
    });
}

}  // namespace

// Recursion is bounded: no document is deeper than the limit it was parsed with.
bool same_value(JsonView left, JsonView right) {
    if (left.kind() != right.kind()) return false;
    switch (left.kind()) {
        case JsonKind::missing:
            return true;
        case JsonKind::object:
            return same_members(left.members(), right.members());
        case JsonKind::array: {
            if (left.size() != right.size()) return false;
            std::size_t i = 0;
            while (i < left.size() && same_value(left.at(i), right.at(i)))
                ++i;
            return i == left.size();
        }
        case JsonKind::string:
            return left.as_string() == right.as_string();
        default:
            return left.to_json() == right.to_json();
    }
}

}  // namespace drawbridge::base
