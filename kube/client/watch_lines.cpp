#include "kube/client/watch_lines.hpp"

#include <fmt/format.h>

namespace drawbridge::kube::client {

using base::ErrorKind;
using base::JsonView;
using base::Result;

Result<void> LineCutter::push(std::string_view piece) {
    if (begin_ > 0) {  // what has been handed out makes room
        buffer_.erase(0, begin_);
        searched_ -= begin_;
        begin_ = 0;
    }
    buffer_ += piece;
    const std::size_t last_end = buffer_.rfind('\n');
    const std::size_t open =
        last_end == std::string::npos ? buffer_.size() : buffer_.size() - last_end - 1;
    if (open > max_line_) {
        return base::fail(ErrorKind::invalid_input,
                          fmt::format("a line of the watch is longer than {} bytes", max_line_));
    }
    return {};
}

std::optional<std::string> LineCutter::next() {
    while (true) {
        const std::size_t end = buffer_.find('\n', searched_);
        if (end == std::string::npos) {
            searched_ = buffer_.size();
            return std::nullopt;
        }
        std::string line = buffer_.substr(begin_, end - begin_);
        begin_ = searched_ = end + 1;
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (!line.empty()) return line;
    }
}

namespace {

Change read_error(JsonView status) {
    const std::string_view reason = status["reason"].string_or("");
    const bool expired = status["code"].as_int() == 410 || reason == "Expired" || reason == "Gone";
    return {.kind = expired ? ChangeKind::expired : ChangeKind::failed,
            .object = {},
            .resource_version = {},
            .message = std::string(status["message"].string_or("an error without a message"))};
}

std::optional<ChangeKind> kind_of(std::string_view type) {
    if (type == "ADDED" || type == "MODIFIED") return ChangeKind::put;
    if (type == "DELETED") return ChangeKind::erase;
    if (type == "BOOKMARK") return ChangeKind::bookmark;
    return std::nullopt;
}

}  // namespace

Result<Change> read_change(JsonView line) {
    const std::string_view type = line["type"].string_or("");
    const JsonView object = line["object"];
    if (type == "ERROR") return read_error(object);
    const auto kind = kind_of(type);
    if (!kind) {
        return base::fail(ErrorKind::invalid_input,
                          fmt::format("\"{}\" is not a type of watch event; ADDED, MODIFIED, "
                                      "DELETED, BOOKMARK and ERROR are",
                                      type.substr(0, 40)),
                          "/type");
    }
    const auto version = object["metadata"]["resourceVersion"].as_string();
    if (!version || version->empty()) {
        return base::fail(ErrorKind::invalid_input, "a watch event without a resourceVersion",
                          "/object/metadata/resourceVersion");
    }
    return Change{
        .kind = *kind, .object = object, .resource_version = std::string(*version), .message = {}};
}

}  // namespace drawbridge::kube::client
