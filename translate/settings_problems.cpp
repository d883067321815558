#include "translate/settings_problems.hpp"

#include "base/json.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::translate {
namespace {

constexpr std::size_t max_shown = 80;
constexpr std::size_t max_lines = 100;

/// Letters and digits in lower case, so that `memory_sizes` and `MemorySizes` are near
/// `memorySizes`.
std::string folded(std::string_view text) {
    std::string result = base::lower_ascii(text);
    std::erase_if(result, [](char c) { return c == '_' || c == '-'; });
    return result;
}

/// The known name that was probably meant; empty if none is near.
std::string_view nearest(std::string_view name, std::span<const std::string_view> known) {
    if (name.size() > max_shown) return {};
    const std::string wanted = folded(name);
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(1, wanted.size() / 3) + 1;
    for (const auto candidate : known) {
        const std::size_t distance = base::edit_distance(wanted, folded(candidate));
        if (distance < best_distance) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

}  // namespace

std::string shown(std::string_view text) {
    std::string result;
    base::append_json_string(result, base::shortened(text, max_shown));
    return result;
}

std::string pointer_token(std::string_view key) {
    std::string quoted;
    base::append_json_string(quoted, base::escape_pointer(base::shortened(key, max_shown)));
    return quoted.substr(1, quoted.size() - 2);
}

std::string unknown_name(std::string_view what, std::string_view name,
                         std::span<const std::string_view> known) {
    const std::string_view suggestion = nearest(name, known);
    if (!suggestion.empty()) {
        return fmt::format("unknown {} {}; did you mean \"{}\"?", what, shown(name), suggestion);
    }
    return fmt::format("unknown {} {}; known: {}", what, shown(name), fmt::join(known, ", "));
}

void Problems::add(std::string_view place, std::string_view message) {
    if (count_ == 0) first_place_ = place;
    if (count_ < max_lines)
        lines_.push_back(fmt::format("{}: {}", place.empty() ? "(document)" : place, message));
    ++count_;
}

base::Error Problems::error() const {
    std::string message = fmt::format("{}", fmt::join(lines_, "\n"));
    if (count_ > lines_.size()) message += fmt::format("\n(and {} more)", count_ - lines_.size());
    return {base::ErrorKind::invalid_input, std::move(message), first_place_};
}

}  // namespace drawbridge::translate
