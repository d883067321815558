#pragma once
// Moving over JSON text that was parsed before, to find where its parts lie.

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace drawbridge::kube {

/// Moves over JSON text. On text that is no JSON it fails or goes astray, but stays inside.
class JsonCursor {
public:
    explicit JsonCursor(std::string_view text) : text_(text) {}

    [[nodiscard]] std::size_t position() const { return position_; }
    [[nodiscard]] char peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }

    void skip_space() {
        position_ = std::min(text_.find_first_not_of(white_space, position_), text_.size());
    }

    bool take(char wanted) {
        if (peek() != wanted) return false;
        ++position_;
        return true;
    }

    bool skip_string() {
        if (!take('"')) return false;
        while (position_ < text_.size() && text_[position_] != '"') {
            position_ += text_[position_] == '\\' ? 2 : 1;
        }
        position_ = std::min(position_, text_.size());
        return take('"');
    }

    /// Skips a value of any kind and depth.
    bool skip_value() {
        std::size_t depth = 0;
        do {
            const std::size_t before = position_;
            const char c = peek();
            if (c == '"') {
                if (!skip_string()) return false;
            } else if (c == '{' || c == '[') {
                ++depth;
                ++position_;
            } else if (depth > 0 && (c == '}' || c == ']')) {
                --depth;
                ++position_;
            } else if (depth > 0 &&
                       (c == ',' || c == ':' || white_space.find(c) != std::string_view::npos)) {
                ++position_;
            } else {
                position_ =
                    std::min(text_.find_first_of(",:]}{[\" \t\r\n", position_), text_.size());
            }
            if (position_ == before) return false;
        } while (depth > 0);
        return true;
    }

private:
    static constexpr std::string_view white_space = " \t\r\n";

    std::string_view text_;
    std::size_t position_ = 0;
};

}  // namespace drawbridge::kube
