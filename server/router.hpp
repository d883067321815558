#pragma once
// Which requests the admission port serves: path, method, content type, and the caller's timeout.

#include "server/http_answer.hpp"

#include <chrono>
#include <optional>
#include <string_view>
#include <variant>

namespace drawbridge::server {

/// The parts of a request's head that decide.
struct RequestHead {
    std::string_view method;
    std::string_view target;  ///< path and query as sent
    std::string_view content_type;
};

/// A review to be answered within `time` from its arrival.
struct ReviewRoute {
    std::chrono::nanoseconds time;
};

/// The longest that calls of ours may take for one review, whatever the caller allows.
inline constexpr std::chrono::seconds longest_review{10};

/// Where a request goes, or its answer: 404, 405 with `Allow`, 415.
[[nodiscard]] std::variant<ReviewRoute, HttpAnswer> route(const RequestHead& head);

/// How long our own calls may take, from the `timeout` of the query (`?timeout=5s`): a tenth is
/// kept for the way back. A missing or senseless value counts as `longest_review`.
[[nodiscard]] std::chrono::nanoseconds time_for_review(std::string_view target);

/// A duration as Go prints and reads it: `5s`, `1m30s`, `500ms`, `1.5s`, `0`. Nullopt: not one, or
/// beyond what a Go duration holds.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text);

}  // namespace drawbridge::server
