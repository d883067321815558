#include "translate/figure_advice.hpp"

#include "base/text.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace drawbridge::translate {

namespace {

constexpr std::string_view digits = "0123456789";

/// Powers of 1024 above the MiB; nothing for what is no unit of bytes.
std::optional<int> power_of(std::string_view unit) {
    if (unit.empty()) return 0;
    constexpr std::array tails = {"", "b", "i", "ib"};
    constexpr std::string_view prefixes = "kmgt";
    const auto place = prefixes.find(unit.front());
    if (place == std::string_view::npos) return std::nullopt;
    for (const char* tail : tails) {
        if (unit.substr(1) == tail) return static_cast<int>(place) - 1;
    }
    return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> mebibytes_meant(std::string_view text) {
    constexpr std::size_t longest = 32;
    constexpr double most = 1LL << 40U;
    text = base::trim(text);
    const std::size_t end = text.find_first_not_of("0123456789.");
    const std::string_view number = text.substr(0, end);
    if (text.size() > longest || number.find_first_of(digits) == std::string_view::npos) {
        return std::nullopt;
    }
    double value = 0;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), value);
    if (read.ec != std::errc() || read.ptr != number.data() + number.size()) return std::nullopt;
    const auto power = power_of(base::lower_ascii(base::trim(text.substr(number.size()))));
    if (!power) return std::nullopt;
    value = std::ceil(std::ldexp(value, 10 * *power));
    if (value < 1 || value > most) return std::nullopt;
    return static_cast<std::int64_t>(value);
}

std::string percentage_meant(std::string_view text) {
    text = base::trim(text);
    if (!text.ends_with('%')) return {};
    text = base::trim(text.substr(0, text.size() - 1));
    constexpr std::size_t longest = 3;
    const bool whole = !text.empty() && text.find_first_not_of(digits) == std::string_view::npos;
    return whole && text.size() <= longest ? std::string(text) : std::string();
}

}  // namespace drawbridge::translate
