#include "server/router.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <string>

namespace drawbridge::server {
namespace {

constexpr std::string_view review_path = "/mutate";

struct Unit {
    std::string_view name;
    double nanoseconds;
};

// Longer names before their prefixes.
constexpr Unit units[] = {{"ns", 1},   {"us", 1e3}, {"\u00b5s", 1e3}, {"\u03bcs", 1e3},
                          {"ms", 1e6}, {"s", 1e9},  {"m", 60e9},      {"h", 3600e9}};

constexpr double longest_duration = 9.2e18;  // just under 2^63 nanoseconds

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Takes `12`, `1.5` or `.5` from the front.
std::optional<double> take_number(std::string_view& text) {
    double value = 0;
    double scale = 0;  // 0: before the point
    std::size_t digits = 0;
    std::size_t used = 0;
    for (; used < text.size(); ++used) {
        const char c = text[used];
        if (c == '.' && scale == 0) {
            scale = 1;
        } else if (is_digit(c)) {
            ++digits;
            if (scale != 0) scale /= 10;
            value = scale == 0 ? value * 10 + (c - '0') : value + scale * (c - '0');
        } else {
            break;
        }
    }
    text.remove_prefix(used);
    if (digits == 0) return std::nullopt;
    return value;
}

std::optional<double> take_unit(std::string_view& text) {
    for (const Unit& unit : units) {
        if (!text.starts_with(unit.name)) continue;
        text.remove_prefix(unit.name.size());
        return unit.nanoseconds;
    }
    return std::nullopt;
}

/// The value of a parameter in the query of `target`; no escapes, since no duration needs any.
std::string_view query_value(std::string_view target, std::string_view name) {
    const std::size_t mark = target.find('?');
    if (mark == std::string_view::npos) return {};
    std::string_view rest = target.substr(mark + 1);
    while (!rest.empty()) {
        const std::string_view pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
        if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') {
            return pair.substr(name.size() + 1);
        }
    }
    return {};
}

/// Whether a content type is JSON, with or without parameters (RFC 9110: without regard to case).
bool is_json(std::string_view content_type) {
    constexpr std::string_view json = "application/json";
    std::string_view type = content_type.substr(0, content_type.find(';'));
    while (!type.empty() && (type.back() == ' ' || type.back() == '\t'))
        type.remove_suffix(1);
    return type.size() == json.size() && base::lower_ascii(type) == json;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text) {
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    if (text == "0") return std::chrono::nanoseconds{0};
    if (text.empty()) return std::nullopt;
    double sum = 0;
    while (!text.empty()) {
        const auto number = take_number(text);
        if (!number) return std::nullopt;
        const auto unit = take_unit(text);
        if (!unit) return std::nullopt;
        sum += *number * *unit;
        if (sum > longest_duration) return std::nullopt;
    }
    return std::chrono::nanoseconds{static_cast<std::int64_t>(negative ? -sum : sum)};
}

std::chrono::nanoseconds time_for_review(std::string_view target) {
    const auto given = parse_go_duration(query_value(target, "timeout"));
    const std::chrono::nanoseconds most = longest_review;
    const auto time = given && given->count() > 0 ? std::min(*given, most) : most;
    return time - time / 10;
}

std::variant<ReviewRoute, HttpAnswer> route(const RequestHead& head) {
    if (head.target.substr(0, head.target.find('?')) != review_path) {
        return failure(404, "there is nothing at this path; reviews are answered at /mutate");
    }
    if (head.method != "POST") {
        HttpAnswer answer = failure(405, "a review is sent with POST");
        answer.headers += "Allow: POST\r\n";
        return answer;
    }
    if (!is_json(head.content_type)) {
        return failure(415, "a review is sent as Content-Type: application/json");
    }
    return ReviewRoute{time_for_review(head.target)};
}

}  // namespace drawbridge::server
