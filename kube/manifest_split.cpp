#include "kube/manifest_split.hpp"

#include <algorithm>
#include <utility>

namespace drawbridge::kube {
namespace {

constexpr std::string_view white_space = " \t\r\n";

/// Whether a line begins with a document marker.
bool is_marker(std::string_view line, std::string_view marker) {
    if (!line.starts_with(marker)) return false;
    return line.size() == marker.size() ||
           white_space.find(line[marker.size()]) != std::string_view::npos;
}

/// Whether YAML breaks the line where others do not: at a lone carriage return, NEL, LS or PS.
bool breaks_within(std::string_view line) {
    for (const std::string_view mark : {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
        if (line.find(mark) != std::string_view::npos) return true;
    }
    const std::string_view end = line.substr(std::min(line.find('\r'), line.size()));
    return !end.empty() && end != "\r" && end != "\r\n";
}

bool is_blank_or_comment(std::string_view line) {
    if (breaks_within(line)) return false;
    const std::size_t first = line.find_first_not_of(" \r\n");  // a tab is an error, as in YAML
    return first == std::string_view::npos || line[first] == '#';
}

class Splitter {
public:
    explicit Splitter(std::string_view text) : text_(text) {}

    std::vector<YamlSection> split() {
        for (std::size_t at = 0; at < text_.size();) {
            const std::size_t end = std::min(text_.find('\n', at), text_.size() - 1) + 1;
            take_line(at, end);
            at = end;
            ++line_;
        }
        close(text_.size(), false);
        return std::move(sections_);
    }

private:
    /// Where a line stands: before a document (blank, comments, directives), or in one.
    enum class State { before, inside };

    void take_line(std::size_t begin, std::size_t end) {
        const std::string_view line = text_.substr(begin, end - begin);
        if (is_marker(line, "---")) {
            close(begin, true);
            std::string_view rest = line.substr(3);
            rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
            const bool is_bare = rest.find_first_not_of(white_space) == std::string_view::npos;
            body_ = is_bare ? end : end - rest.size();
            section_line_ = is_bare ? line_ + 1 : line_;
            state_ = State::inside;
        } else if (is_marker(line, "...")) {
            close(begin, false);
            body_ = end;
            section_line_ = line_ + 1;
            state_ = State::before;
        } else if (state_ == State::before) {
            if (line.starts_with('%')) {
                has_directives_ = true;
            } else if (is_blank_or_comment(line)) {
                comments_ += line;
            } else {
                state_ = State::inside;
            }
        }
    }

    /// Ends the section that lies before `end`. What was before a `---` only is handed on to it;
    /// directives without a `---` are left to the parser, which refuses them.
    void close(std::size_t end, bool at_start_marker) {
        if (state_ == State::inside || (has_directives_ && !at_start_marker)) {
            const std::string_view body = text_.substr(body_, end - body_);
            sections_.push_back({std::exchange(pending_, {}), body, section_line_});
        } else if (at_start_marker) {
            pending_ = has_comment(comments_) ? std::move(comments_) : std::string();
        }
        comments_.clear();
        has_directives_ = false;
    }

    static bool has_comment(std::string_view lines) {
        return lines.find('#') != std::string_view::npos;
    }

    std::string_view text_;
    std::vector<YamlSection> sections_;
    std::string comments_;
    std::string pending_;
    std::size_t body_ = 0;
    std::size_t line_ = 1;
    std::size_t section_line_ = 1;
    State state_ = State::before;
    bool has_directives_ = false;
};

}  // namespace

std::vector<YamlSection> split_yaml(std::string_view text) {
    return Splitter(text).split();
}

}  // namespace drawbridge::kube
