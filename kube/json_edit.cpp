// Applies a patch to JSON text: one pass over the text finds the places of all operations, a second
// copies the text with the edits.

#include "base/json.hpp"
#include "kube/json_cursor.hpp"
#include "kube/json_patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace drawbridge::kube {

namespace {

using base::ErrorKind;
using base::fail;
using base::Result;

// ---------------------------------------------------------------------------------- the places a
// patch names

/// One place that the patch names, or the way to one.
struct Place {
    std::map<std::string, std::size_t, std::less<>>
        children;                                   ///< by member name or index, unescaped
    std::vector<const PatchOperation*> operations;  ///< several only where elements are appended
    const PatchOperation* first = nullptr;          ///< that made this place: names it in errors
    bool found = false;
};

/// All places of a patch as a tree; the first is the root.
using Places = std::vector<Place>;

std::string unescaped(std::string_view token) {
    std::string text;
    for (std::size_t i = 0; i < token.size(); ++i) {
        if (token[i] == '~' && i + 1 < token.size()) {
            text += token[++i] == '1' ? '/' : '~';
        } else {
            text += token[i];
        }
    }
    return text;
}

Result<Places> read_places(const JsonPatch& patch) {
    Places places(1);
    for (const PatchOperation& operation : patch.operations()) {
        std::string_view rest = operation.path;
        if (!rest.empty() && rest[0] != '/') {
            return fail(ErrorKind::invalid_input, "a JSON pointer begins with /", operation.path);
        }
        std::size_t at = 0;
        if (places[at].first == nullptr) places[at].first = &operation;
        while (!rest.empty()) {
            const std::size_t end = std::min(rest.find('/', 1), rest.size());
            const auto [child, is_new] =
                places[at].children.try_emplace(unescaped(rest.substr(1, end - 1)), places.size());
            at = child->second;
            if (is_new) places.emplace_back().first = &operation;
            rest.remove_prefix(end);
        }
        places[at].operations.push_back(&operation);
    }
    for (const Place& place : places) {
        const bool appends = place.first != nullptr && place.first->path.ends_with("/-");
        if ((!place.operations.empty() && !place.children.empty()) ||
            (place.operations.size() > 1 && !appends)) {
            return fail(ErrorKind::internal, "two operations of a patch touch one place",
                        place.first->path);
        }
    }
    return places;
}

// ---------------------------------------------------------------------------------- the text

/// A member or element in the text.
struct Item {
    std::size_t begin = 0;     ///< of the name, in an array of the value
    std::size_t name_end = 0;  ///< 0 in an array
    std::size_t value = 0;
    std::size_t end = 0;
    bool removed = false;
};

/// An object or array on the way to a place.
struct Container {
    std::size_t place = 0;
    bool is_object = false;
    std::size_t open = 0;  ///< of its bracket
    std::vector<Item> items;
};

/// A stretch of the text and what comes in its place.
struct Edit {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::string text;
};

/// An item to be added at the end of a container.
struct Addition {
    const PatchOperation* operation = nullptr;
    std::string_view name;  ///< of a member
};

// ---------------------------------------------------------------------------------- edits

class Editor {
public:
    Editor(std::string_view text, Places places)
        : text_(text), cursor_(text), places_(std::move(places)) {}

    Result<std::string> run() {
        cursor_.skip_space();
        Item root{.begin = cursor_.position(), .value = cursor_.position()};
        Result<void> done = visit(root, 0);
        while (done && !open_.empty())
            done = step();
        if (!done) return tl::unexpected(std::move(done).error());
        return edited_text();
    }

private:
    Result<void> malformed() const {
        return fail(ErrorKind::invalid_input,
                    fmt::format("not JSON at byte {}", cursor_.position()));
    }

    /// Before an item of the innermost container, or its end.
    Result<void> step() {
        const std::size_t depth = open_.size() - 1;
        const bool is_object = open_[depth].is_object;
        cursor_.skip_space();
        if (cursor_.peek() == (is_object ? '}' : ']')) return close();
        if (!open_[depth].items.empty() && !cursor_.take(',')) return malformed();
        cursor_.skip_space();
        Item item{.begin = cursor_.position()};
        std::string token = std::to_string(open_[depth].items.size());
        if (is_object) {
            auto name = read_name(item);
            if (!name) return tl::unexpected(std::move(name).error());
            token = *std::move(name);
        }
        item.value = cursor_.position();
        const auto& children = places_[open_[depth].place].children;
        if (const auto child = children.find(token); child != children.end()) {
            if (auto done = visit(item, child->second); !done) return done;
        } else if (!cursor_.skip_value()) {
            return malformed();
        }
        item.end = cursor_.position();  // if the item was only opened, close() sets it
        open_[depth].items.push_back(item);
        return {};
    }

    /// Reads the name of a member, as it is meant, and goes to the value.
    Result<std::string> read_name(Item& item) {
        const bool is_string = cursor_.skip_string();
        item.name_end = cursor_.position();
        const std::string_view quoted = text_.substr(item.begin, item.name_end - item.begin);
        cursor_.skip_space();
        if (!is_string || !cursor_.take(':')) return tl::unexpected(malformed().error());
        cursor_.skip_space();
        if (quoted.find('\\') == std::string_view::npos)
            return std::string(quoted.substr(1, quoted.size() - 2));
        const auto parsed = base::parse_json(std::string(quoted));
        if (!parsed) return tl::unexpected(parsed.error());
        return std::string(parsed->root().string_or(""));
    }

    /// At the value of an item that the patch names or leads through: notes the edit, or opens the
    /// container.
    Result<void> visit(Item& item, std::size_t at) {
        Place& place = places_[at];
        if (place.found)
            return fail(ErrorKind::invalid_input, "the member is there twice", place.first->path);
        place.found = true;
        if (place.operations.size() > 1) return conflict(place);
        if (!place.operations.empty()) return note_edit(item, *place.operations.front());
        const char bracket = cursor_.peek();
        if (bracket != '{' && bracket != '[') {
            if (!place.children.empty()) return missing(place);
            return cursor_.skip_value() ? Result<void>() : malformed();
        }
        open_.push_back(
            {.place = at, .is_object = bracket == '{', .open = cursor_.position(), .items = {}});
        cursor_.take(bracket);
        return {};
    }

    Result<void> note_edit(Item& item, const PatchOperation& operation) {
        const bool in_object = !open_.empty() && open_.back().is_object;
        const bool in_array = !open_.empty() && !in_object;
        const bool removes = operation.kind == PatchKind::remove;
        if ((removes && !in_object) || (in_array && operation.kind == PatchKind::add)) {
            return fail(ErrorKind::internal, "a patch does not remove or move elements",
                        operation.path);
        }
        if (!cursor_.skip_value()) return malformed();
        item.removed = removes;
        if (!removes) edits_.push_back({item.value, cursor_.position(), operation.value});
        return {};
    }

    static Result<void> missing(const Place& place) {
        return fail(ErrorKind::not_found, "the document has no such place", place.first->path);
    }

    static Result<void> conflict(const Place& place) {
        return fail(ErrorKind::internal, "two operations of a patch touch one place",
                    place.first->path);
    }

    /// At the end of the innermost container.
    Result<void> close() {
        const Container container = std::move(open_.back());
        open_.pop_back();
        auto additions = find_additions(container);
        if (!additions) return tl::unexpected(std::move(additions).error());
        edit_items(container, *additions);
        cursor_.take(container.is_object ? '}' : ']');
        if (!open_.empty()) open_.back().items.back().end = cursor_.position();
        return {};
    }

    /// What the patch adds to the container, in the order of the patch; fails where it means an
    /// item not found.
    Result<std::vector<Addition>> find_additions(const Container& container) const {
        std::vector<Addition> additions;
        for (const auto& [token, index] : places_[container.place].children) {
            const Place& place = places_[index];
            if (place.found) continue;
            if (place.operations.empty() || (!container.is_object && token != "-")) {
                return tl::unexpected(missing(place).error());
            }
            if (container.is_object && place.operations.size() > 1) {
                return tl::unexpected(conflict(place).error());
            }
            for (const PatchOperation* operation : place.operations) {
                if (operation->kind != PatchKind::add)
                    return tl::unexpected(missing(place).error());
                additions.push_back({operation, token});
            }
        }
        std::ranges::sort(additions, {}, &Addition::operation);  // they lie in one vector, in order
        return additions;
    }

    /// Notes the edits that remove items and add some behind the last that stays.
    void edit_items(const Container& container, const std::vector<Addition>& additions) {
        const auto& items = container.items;
        std::size_t kept = items.size();  // up to the last item that stays
        while (kept > 0 && items[kept - 1].removed)
            --kept;
        for (std::size_t i = 0; i < kept; ++i) {
            if (items[i].removed) edits_.push_back({items[i].begin, items[i + 1].begin, {}});
        }
        if (kept == items.size() && additions.empty()) return;
        const Style style = style_of(container);
        std::string text;
        for (const Addition& addition : additions) {
            if (kept > 0 || !text.empty()) text.append(1, ',').append(style.between);
            if (container.is_object) {
                base::append_json_string(text, addition.name);
                text.append(style.colon);
            }
            text += addition.operation->value;
        }
        if (kept > 0) {
            edits_.push_back({items[kept - 1].end, items.back().end, std::move(text)});
        } else if (additions.empty() || items.empty()) {
            edits_.push_back({container.open + 1, cursor_.position(), std::move(text)});
        } else {
            edits_.push_back({items.front().begin, items.back().end, std::move(text)});
        }
    }

    /// How the items of a container are set apart.
    struct Style {
        std::string_view between;  ///< behind a comma
        std::string_view colon = ":";
    };

    /// The style of the last item, or of the only one.
    Style style_of(const Container& container) const {
        Style style;
        const auto& items = container.items;
        if (items.empty()) return style;
        const Item& last = items.back();
        if (container.is_object)
            style.colon = text_.substr(last.name_end, last.value - last.name_end);
        if (items.size() > 1) {
            const std::string_view gap =
                text_.substr(items[items.size() - 2].end, last.begin - items[items.size() - 2].end);
            style.between = gap.substr(gap.find(',') + 1);
            return style;
        }
        const std::string_view lead =
            text_.substr(container.open + 1, last.begin - container.open - 1);
        const bool over_lines = lead.find('\n') != std::string_view::npos;
        style.between = over_lines ? lead : style.colon.substr(style.colon.find(':') + 1);
        return style;
    }

    std::string edited_text() {
        std::ranges::sort(edits_, {},
                          [](const Edit& edit) { return std::pair(edit.begin, edit.end); });
        std::string out;
        out.reserve(text_.size());
        std::size_t copied = 0;
        for (const Edit& edit : edits_) {
            out.append(text_, copied, edit.begin - copied).append(edit.text);
            copied = edit.end;
        }
        return out.append(text_, copied);
    }

    std::string_view text_;
    JsonCursor cursor_;
    Places places_;
    std::vector<Container> open_;  ///< innermost last
    std::vector<Edit> edits_;
};

}  // namespace

base::Result<std::string> apply_patch(std::string_view document, const JsonPatch& patch) {
    auto places = read_places(patch);
    if (!places) return tl::unexpected(std::move(places).error());
    return Editor(document, *std::move(places)).run();
}

}  // namespace drawbridge::kube
