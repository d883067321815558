#pragma once
// Texts as the API server wants them: times, and foreign text within a length.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace drawbridge::agent {

/// `2026-01-31T12:00:00Z` of Unix seconds.
[[nodiscard]] std::string api_time(std::int64_t unix_seconds);

/// `2026-01-31T12:00:00.000001Z`: the form of `MicroTime`.
[[nodiscard]] std::string api_micro_time(std::chrono::system_clock::time_point time);

/// At most `most` bytes of a text, cut between characters; what is no UTF-8 becomes `?`.
[[nodiscard]] std::string bounded_text(std::string_view text, std::size_t most);

}  // namespace drawbridge::agent
