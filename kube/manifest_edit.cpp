#include "kube/manifest_edit.hpp"

#include "kube/manifest_changes.hpp"
#include "kube/manifest_scalar.hpp"
#include "kube/manifest_write.hpp"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

namespace drawbridge::kube {
namespace {

using base::JsonView;

/// A stretch of the text and what comes in its place.
struct Edit {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::string text;
    std::size_t depth = 0;  ///< where two insert at one place, the one deeper in the tree is first
};

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

class Editor {
public:
    Editor(std::string_view text, const YamlTree& tree, YamlChanges changes)
        : text_(text), tree_(tree), changes_(std::move(changes)) {
        const std::size_t line_end = text.find('\n');
        if (line_end != std::string_view::npos && line_end > 0 && text[line_end - 1] == '\r') {
            line_break_ = "\r\n";
        }
        for (const YamlNode& node : tree.nodes) {
            const YamlNode& parent = tree[node.parent];
            if (node.kind != YamlKind::sequence || node.style != YamlStyle::block) continue;
            if (parent.kind != YamlKind::mapping || node.column < parent.column) continue;
            sequence_indent_ = node.column - parent.column;
            break;
        }
    }

    std::optional<std::string> run() {
        for (const auto& [index, items] : changes_.parents)
            edit_items(index, items);
        if (failed_) return std::nullopt;
        std::ranges::stable_sort(edits_, [](const Edit& a, const Edit& b) {
            return std::tuple(a.begin, a.end > a.begin, b.depth) <
                   std::tuple(b.begin, b.end > b.begin, a.depth);
        });
        std::string out;
        std::size_t copied = 0;
        for (const Edit& edit : edits_) {
            if (edit.begin < copied) return std::nullopt;  // two changes touch
            out.append(text_, copied, edit.begin - copied).append(edit.text);
            copied = edit.end;
        }
        return out.append(text_, copied);
    }

private:
    // ------------------------------------------------------------------ places in the text

    [[nodiscard]] std::size_t line_begin(std::size_t at) const {
        const std::size_t before = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
        return before == std::string_view::npos ? 0 : before + 1;
    }

    [[nodiscard]] std::size_t next_line(std::size_t at) const {
        const std::size_t end = text_.find('\n', at);
        return end == std::string_view::npos ? text_.size() : end + 1;
    }

    [[nodiscard]] bool is_first_on_line(std::size_t at) const {
        const std::size_t begin = line_begin(at);
        return text_.substr(begin, at - begin).find_first_not_of(' ') == std::string_view::npos;
    }

    /// Whether the rest of the line is blank or a comment.
    [[nodiscard]] bool is_last_on_line(std::size_t at) const {
        std::string_view rest = text_.substr(at, next_line(at) - at);
        const std::size_t skipped = std::min(rest.find_first_not_of(" \t\r\n"), rest.size());
        return skipped == rest.size() || rest[skipped] == '#';
    }

    /// The end of what stands before `at`, white space skipped.
    [[nodiscard]] std::size_t end_before(std::size_t at) const {
        while (at > 0 && is_space(text_[at - 1]))
            --at;
        return at;
    }

    [[nodiscard]] std::size_t count(const YamlNode& node) const {
        return node.children.size() / (node.kind == YamlKind::mapping ? 2 : 1);
    }

    /// The key of a member, or the element.
    [[nodiscard]] const YamlNode& first_part(const YamlNode& node, std::size_t item) const {
        return tree_[node.children[node.kind == YamlKind::mapping ? 2 * item : item]];
    }

    [[nodiscard]] const YamlNode& value_of(const YamlNode& node, std::size_t item) const {
        return tree_[node.children[node.kind == YamlKind::mapping ? 2 * item + 1 : item]];
    }

    [[nodiscard]] std::size_t end_of(const YamlNode& node, std::size_t item) const {
        return std::max(first_part(node, item).end, value_of(node, item).end);
    }

    /// Behind the colon of a block map's member; fails for the form `? key`.
    std::size_t colon_end(const YamlNode& node, std::size_t item) {
        const YamlNode& key = first_part(node, item);
        const std::size_t colon = text_.find_first_not_of(" \t", key.end);
        const bool is_simple =
            colon != std::string_view::npos && text_[colon] == ':' && key.column == node.column;
        if (!is_simple) failed_ = true;
        return is_simple ? colon + 1 : key.end;
    }

    /// The dash of a block list's element, on its line or above comments that stand between; fails
    /// where there is none.
    std::size_t dash_of(const YamlNode& node, std::size_t item) {
        const std::size_t start = first_part(node, item).start;
        const std::size_t behind = end_before(start);
        if (behind > 0 && text_[behind - 1] == '-') return behind - 1;
        for (std::size_t line = line_begin(start); line > 0;) {
            line = line_begin(line - 1);
            const std::size_t place = line + node.column;
            if (text_[place] == '-' && is_first_on_line(place)) return place;
            if (!is_last_on_line(line)) break;
        }
        failed_ = true;
        return start;
    }

    [[nodiscard]] std::size_t depth_of(YamlIndex index) const {
        std::size_t depth = 0;
        for (; tree_[index].parent != index; index = tree_[index].parent)
            ++depth;
        return depth;
    }

    // ------------------------------------------------------------------ edits

    void replace(std::size_t begin, std::size_t end, std::string text) {
        edits_.push_back({begin, end, std::move(text), 0});
    }

    /// Puts lines behind the line of `at`.
    void insert_lines(std::size_t at, std::string lines, std::size_t depth) {
        const std::size_t place = next_line(at);
        const bool needs_break = place == text_.size() && !text_.ends_with('\n');
        if (needs_break) {
            lines.insert(0, line_break_);
        } else {
            lines += line_break_;
        }
        edits_.push_back({place, place, std::move(lines), depth});
    }

    [[nodiscard]] YamlLayout layout(std::size_t column) const {
        return {column, sequence_indent_, line_break_};
    }

    void edit_items(YamlIndex index, const ItemChanges& items) {
        const YamlNode& node = tree_[index];
        if (node.style == YamlStyle::flow) {
            edit_flow(index, items);
        } else if (node.kind == YamlKind::mapping) {
            edit_map(index, items);
        } else {
            edit_list(index, items);
        }
    }

    void edit_map(YamlIndex index, const ItemChanges& items) {
        const YamlNode& node = tree_[index];
        const std::size_t last = count(node) - 1;
        if (items.removed.size() == count(node)) return empty_map(node, items);
        std::size_t done = 0;
        if (!is_first_on_line(first_part(node, 0).start)) done = remove_inline(node, items);
        for (const std::size_t item : items.removed) {
            if (item >= done) remove_lines(first_part(node, item).start, end_of(node, item));
        }
        const std::size_t depth = depth_of(index);
        for (const auto& [item, value] : items.replaced)
            replace_member(node, item, value, depth + 1);
        for (const NewItem& item : items.added) {
            std::string lines(node.column, ' ');
            append_yaml_member(lines, item.key, item.value, layout(node.column));
            insert_lines(end_of(node, last), std::move(lines), depth);
        }
    }

    void remove_lines(std::size_t begin, std::size_t end) {
        if (!is_first_on_line(begin) || !is_last_on_line(end)) failed_ = true;
        replace(line_begin(begin), next_line(end), {});
    }

    /// Removes the first members of a map that begins behind a dash, and draws the first one that
    /// stays up to the dash, unless comments stand before it. Returns how many are gone.
    std::size_t remove_inline(const YamlNode& node, const ItemChanges& items) {
        std::size_t kept = 0;
        while (items.removed.contains(kept))
            ++kept;
        if (kept == 0) return 0;
        const std::size_t begin = first_part(node, 0).start;
        const std::size_t end = end_of(node, kept - 1);
        const std::size_t next = first_part(node, kept).start;
        if (!is_last_on_line(end)) failed_ = true;
        if (line_begin(next) == next_line(end)) {
            replace(begin, next, {});
        } else {
            const bool has_return = next_line(end) >= 2 && text_[next_line(end) - 2] == '\r';
            replace(end_before(begin), next_line(end) - (has_return ? 2 : 1), {});
        }
        return kept;
    }

    /// All members go: others come in their place, or `{}`.
    void empty_map(const YamlNode& node, const ItemChanges& items) {
        const std::size_t end = end_of(node, count(node) - 1);
        if (items.added.empty()) return put_empty(node, end, "{}");
        if (!is_last_on_line(end)) failed_ = true;
        std::string text;
        for (const NewItem& item : items.added) {
            if (!text.empty()) text.append(line_break_).append(node.column, ' ');
            append_yaml_member(text, item.key, item.value, layout(node.column));
        }
        const std::size_t stop = next_line(end);
        if (stop > 0 && text_[stop - 1] == '\n') text += line_break_;
        replace(first_part(node, 0).start, stop, std::move(text));
    }

    void put_empty(const YamlNode& node, std::size_t end, const char* empty) {
        const std::size_t before = end_before(node.start);
        const bool has_key = before > 0 && text_[before - 1] == ':';
        replace(has_key ? before : node.start, end, has_key ? std::string(" ") + empty : empty);
    }

    void replace_member(const YamlNode& node, std::size_t item, JsonView value, std::size_t depth) {
        const YamlNode& old = value_of(node, item);
        const std::size_t colon = colon_end(node, item);
        const bool is_empty = old.start == old.end;
        const std::size_t end = is_empty ? colon : old.end;
        if (is_yaml_block(value)) {
            replace(colon, end, {});
            const std::size_t column = node.column + (value.is_array() ? sequence_indent_ : 2);
            std::string lines(column, ' ');
            append_yaml_block(lines, value, layout(column));
            insert_lines(end, std::move(lines), depth);
            return;
        }
        const bool is_short = !is_empty && next_line(colon) == next_line(old.end);
        replace(is_short ? old.start : colon, end, (is_short ? "" : " ") + one_line(value));
    }

    static std::string one_line(JsonView value) {
        const auto text = value.as_string();
        if (text && is_safe_plain(*text)) return std::string(*text);
        std::string out;
        append_yaml_flow(out, value);
        return out;
    }

    void edit_list(YamlIndex index, const ItemChanges& items) {
        const YamlNode& node = tree_[index];
        if (items.removed.size() == count(node)) {
            if (!items.added.empty()) failed_ = true;
            return put_empty(node, end_of(node, count(node) - 1), "[]");
        }
        for (const std::size_t item : items.removed)
            remove_lines(dash_of(node, item), end_of(node, item));
        for (const auto& [item, value] : items.replaced) {
            const YamlNode& old = value_of(node, item);
            std::string text;
            append_yaml_block(text, value, layout(old.column));
            replace(old.start, old.end, std::move(text));
        }
        const YamlNode& first = first_part(node, 0);
        const bool is_beside = first.line == node.line && first.column > node.column + 1;
        const std::size_t column = is_beside ? first.column : node.column + 2;
        for (const NewItem& item : items.added) {
            std::string lines(node.column, ' ');
            lines.append(1, '-').append(column - node.column - 1, ' ');
            append_yaml_block(lines, item.value, layout(column));
            insert_lines(end_of(node, count(node) - 1), std::move(lines), depth_of(index));
        }
    }

    // ------------------------------------------------------------------ flow style

    void edit_flow(YamlIndex index, const ItemChanges& items) {
        const YamlNode& node = tree_[index];
        const char bracket = node.kind == YamlKind::mapping ? '{' : '[';
        if (node.end < node.start + 2 || text_[node.start] != bracket) {
            failed_ = true;  // a tag, an anchor, or a single pair inside a list
            return;
        }
        if (node.children.empty() && grow_to_block(index, items)) return;
        std::vector<std::size_t> kept;
        for (std::size_t item = 0; item < count(node); ++item) {
            if (!items.removed.contains(item)) kept.push_back(item);
        }
        std::string added = flow_items(node, items);
        if (kept.empty()) return replace(node.start + 1, node.end - 1, std::move(added));
        for (const std::size_t item : items.removed) {
            const bool is_leading = item < kept.front();
            replace(is_leading ? first_part(node, item).start : end_of(node, item - 1),
                    is_leading ? first_part(node, item + 1).start : end_of(node, item), {});
        }
        for (const auto& [item, value] : items.replaced) {
            const YamlNode& old = value_of(node, item);
            std::string text(old.start == old.end ? 1 : 0, ' ');
            append_yaml_flow(text, value);
            replace(old.start, old.end, std::move(text));
        }
        if (added.empty()) return;
        const std::size_t place = end_of(node, kept.back());
        replace(place, place, ", " + added);
    }

    static std::string flow_items(const YamlNode& node, const ItemChanges& items) {
        std::string out;
        for (const NewItem& item : items.added) {
            if (!out.empty()) out += ", ";
            if (node.kind == YamlKind::mapping) {
                append_yaml_quoted(out, item.key);
                out += ": ";
            }
            append_yaml_flow(out, item.value);
        }
        return out;
    }

    /// `key: {}` or `key: []` becomes block style as soon as there is something in it.
    bool grow_to_block(YamlIndex index, const ItemChanges& items) {
        const YamlNode& node = tree_[index];
        const YamlNode& parent = tree_[node.parent];
        if (parent.kind != YamlKind::mapping || parent.style != YamlStyle::block) return false;
        if (node.parent == index || items.added.empty()) return false;
        base::JsonWriter writer;
        const bool is_map = node.kind == YamlKind::mapping;
        is_map ? writer.begin_object() : writer.begin_array();
        for (const NewItem& item : items.added) {
            if (is_map) writer.key(item.key);
            writer.raw(item.json);
        }
        is_map ? writer.end_object() : writer.end_array();
        const JsonView value = keep_value(changes_, writer.text());
        const auto member = std::ranges::find(parent.children, index) - parent.children.begin();
        replace_member(parent, static_cast<std::size_t>(member) / 2, value, depth_of(index));
        return true;
    }

    std::string_view text_;
    const YamlTree& tree_;
    YamlChanges changes_;
    std::string line_break_ = "\n";
    std::size_t sequence_indent_ = 0;
    std::vector<Edit> edits_;
    bool failed_ = false;
};

}  // namespace

std::optional<std::string> edit_yaml(std::string_view text, const YamlTree& tree,
                                     const JsonPatch& patch, std::span<const std::size_t> dropped) {
    auto changes = find_changes(tree, patch, dropped);
    if (!changes) return std::nullopt;
    return Editor(text, tree, std::move(*changes)).run();
}

}  // namespace drawbridge::kube
