#pragma once
// The faults of a settings document, collected so that one answer names all of them.

#include "base/result.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::translate {

/// Foreign text as it may stand in a message: quoted, control characters escaped, at most 80 bytes.
[[nodiscard]] std::string shown(std::string_view text);

/// A foreign key as a token of a JSON pointer in a message, escaped and cut like `shown`.
[[nodiscard]] std::string pointer_token(std::string_view key);

/// `unknown WHAT "NAME"; did you mean "NEAREST"?`, or the list of what is known if nothing is near.
[[nodiscard]] std::string unknown_name(std::string_view what, std::string_view name,
                                       std::span<const std::string_view> known);

/// Problems, each with its place.
class Problems {
public:
    void add(std::string_view place, std::string_view message);
    [[nodiscard]] bool empty() const { return count_ == 0; }
    /// All of them, one a line, as one error; the first 100, if there are more.
    [[nodiscard]] base::Error error() const;

private:
    std::vector<std::string> lines_;
    std::string first_place_;
    std::size_t count_ = 0;
};

}  // namespace drawbridge::translate
