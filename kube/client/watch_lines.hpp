#pragma once
// The body of a watch: one JSON object a line, cut out of a byte stream within bounds.

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace drawbridge::kube::client {

/// Cuts lines out of a stream that arrives in pieces.
class LineCutter {
public:
    explicit LineCutter(std::size_t max_line) : max_line_(max_line) {}

    /// Adds a piece; `invalid_input` where a line without end is longer than allowed.
    [[nodiscard]] base::Result<void> push(std::string_view piece);
    /// The next complete line without its end, if there is one. Empty lines are skipped.
    [[nodiscard]] std::optional<std::string> next();
    /// Whether the stream ended inside a line.
    [[nodiscard]] bool inside_line() const { return begin_ < buffer_.size(); }

private:
    std::string buffer_;
    std::size_t begin_ = 0;
    std::size_t searched_ = 0;  ///< no line end between begin_ and here
    std::size_t max_line_;
};

enum class ChangeKind { put, erase, bookmark, expired, failed };

/// One line of a watch.
struct Change {
    ChangeKind kind = ChangeKind::failed;
    base::JsonView object;         ///< of put and erase; lives as long as the line's document
    std::string resource_version;  ///< of put, erase and bookmark
    std::string message;           ///< of expired and failed
};

/// Reads one line (metav1.WatchEvent). An ERROR holds a Status; code 410 or reason Expired or Gone
/// is `expired`.
[[nodiscard]] base::Result<Change> read_change(base::JsonView line);

}  // namespace drawbridge::kube::client
