#include "kube/cel.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::kube {

namespace {

/// A key of a device's map of attributes or capacities, as expressions.
struct Key {
    std::string exists;
    std::string value;
};

Key key_of(std::string_view map, std::string_view driver, std::string_view name) {
    const std::size_t slash = name.find('/');
    const bool is_own = slash == std::string_view::npos;
    const std::string domain = cel_quote(is_own ? driver : name.substr(0, slash));
    const std::string key = cel_quote(is_own ? name : name.substr(slash + 1));
    const std::string names = fmt::format("device.{}[{}]", map, domain);
    return {.exists = key + " in " + names, .value = fmt::format("{}[{}]", names, key)};
}

std::string quoted_list(const std::vector<std::string>& texts) {
    std::string list = "[";
    for (const std::string& text : texts) {
        if (list.size() > 1) list += ", ";
        list += cel_quote(text);
    }
    return list += ']';
}

/// The driver test, and a test of a key that a device may lack.
std::string selector(std::string_view driver, const Key& key, std::string_view test, bool wanted) {
    return fmt::format("device.driver == {} && {}{} && {}{}", cel_quote(driver), wanted ? "" : "!(",
                       key.exists, test, wanted ? "" : ")");
}

}  // namespace

std::string cel_quote(std::string_view text) {
    std::string out = "\"";
    while (!text.empty()) {
        const char c = text.front();
        std::size_t length = 1;
        if (c == '"' || c == '\\') {
            out.append({'\\', c});
        } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20 || byte == 0x7f) {
            out += fmt::format("\\u{:04x}", byte);
        } else if (length = base::utf8_sequence_length(text); length > 0) {
            out += text.substr(0, length);
        } else {
            out += "\uFFFD";
            length = 1;
        }
        text.remove_prefix(length);
    }
    return out += '"';
}

std::string CelSelectors::one_of(std::string_view attribute, const std::vector<std::string>& values,
                                 bool wanted) const {
    const Key key = key_of("attributes", driver_, attribute);
    return selector(driver_, key, fmt::format("{} in {}", key.value, quoted_list(values)), wanted);
}

std::string CelSelectors::contains_any(std::string_view attribute, std::string_view prefix,
                                       const std::vector<std::string>& parts, bool wanted) const {
    const Key key = key_of("attributes", driver_, attribute);
    std::string subject = key.value;
    if (!prefix.empty()) {
        const std::string_view start =
            prefix.substr(0, prefix.size() - (prefix.ends_with('-') ? 1 : 0));
        subject = fmt::format("({0}.startsWith({1}) ? {0} : {2} + {0})", key.value,
                              cel_quote(start), cel_quote(prefix));
    }
    std::vector<std::string> upper(parts.size());
    std::ranges::transform(parts, upper.begin(), base::upper_ascii);
    // bound to a name, so that the case is folded once, not once a part
    const std::string test =
        fmt::format("cel.bind(name, {}.upperAscii(), {}.exists(part, name.contains(part)))",
                    subject, quoted_list(upper));
    return selector(driver_, key, test, wanted);
}

std::string CelSelectors::capacity_compares(std::string_view capacity, std::string_view compare,
                                            std::int64_t bytes) const {
    constexpr std::int64_t mib = std::int64_t{1} << 20U;
    const std::string amount =
        bytes % mib == 0 ? fmt::format("{}Mi", bytes / mib) : std::to_string(bytes);
    const Key key = key_of("capacity", driver_, capacity);
    const std::string test =
        fmt::format("{}.compareTo(quantity(\"{}\")) {} 0", key.value, amount, compare);
    return selector(driver_, key, test, true);
}

std::string CelSelectors::capacity_is(std::string_view capacity, std::int64_t bytes) const {
    return capacity_compares(capacity, "==", bytes);
}

std::string CelSelectors::capacity_at_least(std::string_view capacity, std::int64_t bytes) const {
    return capacity_compares(capacity, ">=", bytes);
}

}  // namespace drawbridge::kube
