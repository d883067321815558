#include "kube/manifest_tree.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <yaml.h>

namespace drawbridge::kube {
namespace {

std::string_view text_of(const yaml_char_t* text) {
    return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

/// Byte offsets for the character counts of libyaml's marks, which come nearly in order.
class Offsets {
public:
    explicit Offsets(std::string_view text) : text_(text) {}

    std::size_t of(std::size_t character) {
        while (character_ < character && byte_ < text_.size()) {
            ++byte_;
            while (byte_ < text_.size() && is_continuation(text_[byte_]))
                ++byte_;
            ++character_;
        }
        while (character_ > character) {
            --byte_;
            while (is_continuation(text_[byte_]))
                --byte_;
            --character_;
        }
        return byte_;
    }

private:
    static bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

    std::string_view text_;
    std::size_t character_ = 0;
    std::size_t byte_ = 0;
};

/// Owns libyaml's parser. libyaml, because Kubernetes' own reader is a port of it: the same texts
/// are YAML to both. It parses without recursion.
class Parser {
public:
    explicit Parser(std::string_view text) {
        if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
        yaml_parser_set_encoding(&parser_, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                     text.size());
    }
    Parser(const Parser&) = delete;
    Parser& operator=(const Parser&) = delete;
    ~Parser() {
        yaml_event_delete(&event_);
        yaml_parser_delete(&parser_);
    }

    /// The next event, valid until the next call; null after an error.
    const yaml_event_t* next() {
        yaml_event_delete(&event_);
        return yaml_parser_parse(&parser_, &event_) == 0 ? nullptr : &event_;
    }

    [[nodiscard]] const yaml_parser_t& state() const { return parser_; }

private:
    yaml_parser_t parser_{};
    yaml_event_t event_{};
};

class Builder {
public:
    Builder(std::string_view text, const base::JsonLimits& limits, std::size_t first_line)
        : text_(text), limits_(limits), first_line_(first_line), parser_(text), offsets_(text) {}

    base::Result<YamlTree> build() {
        while (const yaml_event_t* event = parser_.next()) {
            if (event->type == YAML_STREAM_END_EVENT) return std::move(tree_);
            if (auto done = take(*event); !done) return tl::unexpected(done.error());
        }
        return tl::unexpected(parser_error());
    }

private:
    [[nodiscard]] base::Error error(const yaml_mark_t& mark, std::string message) const {
        return {base::ErrorKind::invalid_input, std::move(message),
                fmt::format("{}:{}", mark.line + first_line_, mark.column + 1)};
    }

    [[nodiscard]] base::Error parser_error() const {
        const yaml_parser_t& state = parser_.state();
        if (state.error == YAML_READER_ERROR) {  // has an offset in bytes, and no mark
            const std::string_view before = text_.substr(0, state.problem_offset);
            yaml_mark_t mark{};
            for (const char c : before) {
                mark.line += c == '\n' ? 1 : 0;
                mark.column = c == '\n' ? 0 : mark.column + 1;
            }
            return error(mark, fmt::format("YAML: {}", state.problem));
        }
        if (state.problem == nullptr) return error({}, "YAML: out of memory");
        std::string message = fmt::format("YAML: {}", state.problem);
        if (state.context != nullptr) message += fmt::format(" {}", state.context);
        if (state.context != nullptr && state.context_mark.line < state.problem_mark.line) {
            message +=
                fmt::format(" that begins at line {}", state.context_mark.line + first_line_);
        }
        return error(state.problem_mark, std::move(message));
    }

    base::Result<void> take(const yaml_event_t& event) {
        switch (event.type) {
            case YAML_DOCUMENT_START_EVENT:
                if (++documents_ > 1) {
                    return tl::unexpected(error(event.start_mark, "YAML: a second document"));
                }
                return {};
            case YAML_ALIAS_EVENT:
                return alias(event);
            case YAML_SCALAR_EVENT:
                return scalar(event);
            case YAML_SEQUENCE_START_EVENT:
                return open(event, YamlKind::sequence,
                            event.data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE,
                            event.data.sequence_start.anchor, event.data.sequence_start.tag);
            case YAML_MAPPING_START_EVENT:
                return open(event, YamlKind::mapping,
                            event.data.mapping_start.style == YAML_FLOW_MAPPING_STYLE,
                            event.data.mapping_start.anchor, event.data.mapping_start.tag);
            case YAML_SEQUENCE_END_EVENT:
            case YAML_MAPPING_END_EVENT:
                close(event);
                return {};
            default:
                return {};
        }
    }

    /// Appends a node to the collection that is open.
    YamlIndex append(const yaml_event_t& event, YamlKind kind, YamlStyle style) {
        const auto index = static_cast<YamlIndex>(tree_.nodes.size());
        YamlNode node;
        node.kind = kind;
        node.style = style;
        node.parent = open_.empty() ? index : open_.back();
        node.line = event.start_mark.line;
        node.column = event.start_mark.column;
        node.start = offsets_.of(event.start_mark.index);
        node.end = offsets_.of(event.end_mark.index);
        if (!open_.empty()) tree_.nodes[open_.back()].children.push_back(index);
        tree_.nodes.push_back(std::move(node));
        return index;
    }

    void remember(const yaml_char_t* anchor, YamlIndex index) {
        if (anchor != nullptr) anchors_.insert_or_assign(std::string(text_of(anchor)), index);
    }

    base::Result<void> alias(const yaml_event_t& event) {
        const std::string_view name = text_of(event.data.alias.anchor);
        const auto found = anchors_.find(name);
        if (found == anchors_.end()) {
            return tl::unexpected(error(event.start_mark, fmt::format("the alias *{:.80} stands "
                                                                      "before or without its "
                                                                      "anchor",
                                                                      name)));
        }
        const YamlIndex index = append(event, YamlKind::alias, YamlStyle::plain);
        tree_.nodes[index].target = found->second;
        return {};
    }

    base::Result<void> scalar(const yaml_event_t& event) {
        const auto& data = event.data.scalar;
        const bool is_block =
            data.style == YAML_LITERAL_SCALAR_STYLE || data.style == YAML_FOLDED_SCALAR_STYLE;
        const YamlIndex index = append(event, YamlKind::scalar,
                                       is_block                   ? YamlStyle::block_text
                                       : data.plain_implicit != 0 ? YamlStyle::plain
                                                                  : YamlStyle::quoted);
        YamlNode& node = tree_.nodes[index];
        node.text.assign(reinterpret_cast<const char*>(data.value), data.length);
        node.tag = text_of(data.tag);
        // The mark of block text lies behind its last line break; blank lines belong to what comes.
        if (is_block) {
            while (node.end > node.start && is_space(text_[node.end - 1]))
                --node.end;
        }
        remember(data.anchor, index);
        return {};
    }

    base::Result<void> open(const yaml_event_t& event, YamlKind kind, bool is_flow,
                            const yaml_char_t* anchor, const yaml_char_t* tag) {
        if (open_.size() == limits_.max_depth) {
            return tl::unexpected(error(
                event.start_mark,
                fmt::format("more than {} lists and maps inside each other", limits_.max_depth)));
        }
        const YamlIndex index = append(event, kind, is_flow ? YamlStyle::flow : YamlStyle::block);
        tree_.nodes[index].tag = text_of(tag);
        remember(anchor, index);
        open_.push_back(index);
        return {};
    }

    void close(const yaml_event_t& event) {
        YamlNode& node = tree_.nodes[open_.back()];
        open_.pop_back();
        if (node.style == YamlStyle::flow) {
            node.end = offsets_.of(event.end_mark.index);
        } else if (!node.children.empty()) {  // libyaml notices the end at the next token only
            node.end = tree_.nodes[node.children.back()].end;
        }
    }

    static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

    std::string_view text_;
    const base::JsonLimits& limits_;
    std::size_t first_line_;
    Parser parser_;
    Offsets offsets_;
    YamlTree tree_;
    std::vector<YamlIndex> open_;
    std::map<std::string, YamlIndex, std::less<>> anchors_;
    std::size_t documents_ = 0;
};

}  // namespace

base::Result<YamlTree> read_yaml(std::string_view text, const base::JsonLimits& limits,
                                 std::size_t first_line) {
    if (text.size() > limits.max_bytes) {
        return base::fail(
            base::ErrorKind::invalid_input,
            fmt::format("{} bytes, at most {} are allowed", text.size(), limits.max_bytes),
            fmt::format("{}:1", first_line));
    }
    return Builder(text, limits, first_line).build();
}

}  // namespace drawbridge::kube
