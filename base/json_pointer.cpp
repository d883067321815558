// The part of base/json.hpp that reads and escapes JSON pointers (RFC 6901).

#include "base/json.hpp"

#include <charconv>

namespace drawbridge::base {
namespace {

JsonView element_at(const JsonView& array, std::string_view token) {
    if (token.empty() || (token.size() > 1 && token.front() == '0')) return {};
    std::size_t index = 0;
    const auto read = std::from_chars(token.data(), token.data() + token.size(), index);
    if (read.ec != std::errc() || read.ptr != token.data() + token.size()) return {};
    return array.at(index);
}

/// The opposite of `escape_pointer`; nullopt where `~` is followed by something else than 0 or 1.
std::optional<std::string> unescape_pointer(std::string_view token) {
    std::string out;
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (token[i] != '~') {
            out += token[i];
            continue;
        }
        if (++i == token.size() || (token[i] != '0' && token[i] != '1')) return std::nullopt;
        out += token[i] == '0' ? '~' : '/';
    }
    return out;
}

}  // namespace

JsonView JsonView::find(std::string_view pointer) const {
    JsonView place = *this;
    while (!pointer.empty() && !place.is_missing()) {
        if (pointer.front() != '/') return {};
        pointer.remove_prefix(1);
        const std::string_view token = pointer.substr(0, pointer.find('/'));
        pointer.remove_prefix(token.size());
        if (place.is_array()) {
            place = element_at(place, token);
        } else if (token.find('~') == std::string_view::npos) {
            place = place[token];
        } else {
            const auto name = unescape_pointer(token);
            place = name ? place[*name] : JsonView();
        }
    }
    return place;
}

std::string escape_pointer(std::string_view token) {
    std::string out;
    out.reserve(token.size());
    for (const char c : token) {
        if (c == '~') {
            out += "~0";
        } else if (c == '/') {
            out += "~1";
        } else {
            out += c;
        }
    }
    return out;
}

}  // namespace drawbridge::base
