#pragma once
// What a person meant by a figure that is no quantity, as far as its text tells.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace drawbridge::translate {

/// The MiB, rounded up, of a text such as `8GB`, `8 GiB` or `512mb`; nothing where it is no size.
/// All units are powers of 1024: who writes GB of a card's memory means what nvidia-smi shows.
[[nodiscard]] std::optional<std::int64_t> mebibytes_meant(std::string_view text);

/// `50` of `50%` or `50 %`; empty where the text is no percentage.
[[nodiscard]] std::string percentage_meant(std::string_view text);

}  // namespace drawbridge::translate
