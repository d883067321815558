#include "agent/json_reader.hpp"

#include "kube/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace drawbridge::agent {

void JsonReader::refuse(const Spot& spot, std::string reason) {
    if (error_) return;
    error_ = base::Error{base::ErrorKind::invalid_input, std::move(reason), spot.path.text()};
}

std::string JsonReader::text(const Spot& spot) {
    const auto found = spot.view.as_string();
    if (!found || found->empty()) refuse(spot, "a text that is not empty is expected");
    return std::string(found.value_or(""));
}

std::string JsonReader::text_or(const Spot& spot, std::string_view fallback) {
    if (spot.is_absent()) return std::string(fallback);
    const auto found = spot.view.as_string();
    if (!found) refuse(spot, "a text is expected");
    return std::string(found.value_or(fallback));
}

std::int64_t JsonReader::whole(const Spot& spot, Range range) {
    const auto found = spot.view.as_int();
    if (found && *found >= range.least && *found <= range.most) return *found;
    refuse(spot, fmt::format("a whole number from {} to {} is expected", range.least, range.most));
    return range.least;
}

std::int64_t JsonReader::whole_or(const Spot& spot, Range range, std::int64_t fallback) {
    return spot.is_absent() ? fallback : whole(spot, range);
}

double JsonReader::factor_or(const Spot& spot, double most, double fallback) {
    if (spot.is_absent()) return fallback;
    const std::string text = spot.view.scalar_text().value_or("");
    double value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool read = failure == std::errc() && end == text.data() + text.size();
    if (read && value > 0 && value <= most) return value;
    refuse(spot, fmt::format("a number above 0 and at most {} is expected", most));
    return fallback;
}

bool JsonReader::boolean_or(const Spot& spot, bool fallback) {
    if (spot.is_absent()) return fallback;
    const auto found = spot.view.as_bool();
    if (!found) refuse(spot, "true or false is expected");
    return found.value_or(fallback);
}

std::int64_t JsonReader::bytes(const Spot& spot) {
    const auto quantity = kube::parse_quantity(spot.view.scalar_text().value_or(""));
    const auto whole = quantity ? quantity->whole() : std::nullopt;
    if (whole && *whole > 0) return *whole;
    refuse(spot, "a quantity of bytes is expected, for example 80Gi");
    return 1;
}

std::vector<Spot> JsonReader::list(const Spot& spot) {
    std::vector<Spot> all;
    if (spot.is_absent()) return all;
    if (!spot.view.is_array()) refuse(spot, "a list is expected");
    for (std::size_t i = 0; i < spot.view.size(); ++i)
        all.push_back(spot.at(i));
    return all;
}

std::vector<std::string> JsonReader::texts(const Spot& spot) {
    std::vector<std::string> all;
    for (const Spot& element : list(spot))
        all.push_back(text(element));
    return all;
}

void JsonReader::members(const Spot& spot, std::initializer_list<std::string_view> known) {
    if (!spot.view.is_object()) return refuse(spot, "an object is expected");
    for (const base::JsonMember& member : spot.view.members()) {
        if (std::ranges::find(known, member.key) != known.end()) continue;
        return refuse(spot[member.key],
                      fmt::format("there is no such field; there are {}", fmt::join(known, ", ")));
    }
}

void JsonReader::kind(const Spot& root, std::string_view version, std::string_view kind) {
    if (root.view["apiVersion"].as_string() != version)
        return refuse(root["apiVersion"], fmt::format("{} is expected", version));
    if (root.view["kind"].as_string() != kind)
        refuse(root["kind"], fmt::format("{} is expected", kind));
}

}  // namespace drawbridge::agent
