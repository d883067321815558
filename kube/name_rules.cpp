#include "kube/name_rules.hpp"

#include <algorithm>

namespace drawbridge::kube {

namespace {

bool is_lower_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool is_letter_or_digit(char c) {
    return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z');
}

/// One part of a subdomain: a label of any length.
bool is_label_of_any_length(std::string_view text) {
    return !text.empty() && is_lower_or_digit(text.front()) && is_lower_or_digit(text.back()) &&
           std::ranges::all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

}  // namespace

bool is_dns_label(std::string_view text) {
    return text.size() <= 63 && is_label_of_any_length(text);
}

bool is_dns_subdomain(std::string_view text) {
    if (text.size() > 253) return false;
    for (std::size_t dot = text.find('.'); dot != std::string_view::npos; dot = text.find('.')) {
        if (!is_label_of_any_length(text.substr(0, dot))) return false;
        text.remove_prefix(dot + 1);
    }
    return is_label_of_any_length(text);
}

bool is_qualified_name(std::string_view text) {
    const std::size_t slash = text.find('/');
    if (slash != std::string_view::npos) {
        if (!is_dns_subdomain(text.substr(0, slash))) return false;
        text.remove_prefix(slash + 1);
    }
    return !text.empty() && text.size() <= 63 && is_letter_or_digit(text.front()) &&
           is_letter_or_digit(text.back()) && std::ranges::all_of(text, [](char c) {
               return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
           });
}

}  // namespace drawbridge::kube
