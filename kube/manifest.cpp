#include "kube/manifest.hpp"

#include "kube/json_cursor.hpp"
#include "kube/manifest_edit.hpp"
#include "kube/manifest_split.hpp"
#include "kube/manifest_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

namespace drawbridge::kube {
namespace {

using base::Error;
using base::ErrorKind;
using base::Result;

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

/// Each takes a few hundred bytes beside its text, however short that is.
constexpr std::size_t max_documents = 100'000;

/// What we made ourselves may be larger than what we take.
constexpr base::JsonLimits no_limits{std::numeric_limits<std::size_t>::max() / 2, 256,
                                     std::numeric_limits<std::size_t>::max()};

/// `LINE:COLUMN` of a byte.
std::string place_of(std::string_view text, std::size_t offset) {
    const std::string_view before = text.substr(0, offset);
    const auto line = static_cast<std::size_t>(std::ranges::count(before, '\n')) + 1;
    const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
    return fmt::format("{}:{}", line, offset - std::min(offset, line_begin) + 1);
}

/// An error of `parse_json`, which names the byte of `value`, with the line and column of the text
/// that the value is a part of instead.
Error json_error(Error error, std::string_view value, std::string_view text) {
    constexpr std::string_view prefix = "JSON, byte ";
    std::size_t offset = 0;
    if (error.message.starts_with(prefix)) {
        const char* const begin = error.message.data() + prefix.size();
        const char* const all = error.message.data() + error.message.size();
        const char* const end = std::from_chars(begin, all, offset).ptr;
        error.message = "JSON" + std::string(end, all);
    }
    if (!error.path.empty()) error.message += fmt::format(" (at {:.200})", error.path);
    const auto begin = static_cast<std::size_t>(value.data() - text.data());
    error.path = place_of(text, begin + std::min(offset, value.size()));
    return error;
}

/// The JSON values in a text, one behind the other; the rest of the text once it is none.
std::vector<std::string_view> split_json(std::string_view text) {
    std::vector<std::string_view> values;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
        if (text.empty()) return values;
        JsonCursor cursor(text);
        const bool is_whole = cursor.skip_value();
        values.push_back(text.substr(0, is_whole ? cursor.position() : text.size()));
        text.remove_prefix(values.back().size());
    }
}

class Reader {
public:
    Reader(std::string_view text, const base::JsonLimits& limits) : text_(text), limits_(limits) {}

    Result<std::vector<Manifest>> read() {
        for (YamlSection& section : split_yaml(text_)) {
            // Files put together with `cat` bring theirs into the middle.
            if (section.body.starts_with(byte_order_mark)) {
                section.body.remove_prefix(byte_order_mark.size());
            }
            const std::size_t first = section.body.find_first_not_of(" \t\r\n");
            const bool is_blank = first == std::string_view::npos;
            Result<void> done;
            if (!is_blank && (section.body[first] == '{' || section.body[first] == '[')) {
                done = read_json(section, first);
            } else {
                done = read_yaml_section(section);
            }
            if (!done) return tl::unexpected(explained(std::move(done).error()));
        }
        return std::move(manifests_);
    }

private:
    /// Says it where a line cannot be read since it is one of a template.
    [[nodiscard]] Error explained(Error error) const {
        std::size_t number = 0;
        std::from_chars(error.path.data(), error.path.data() + error.path.size(), number);
        std::string_view rest = text_;
        while (number > 1 && rest.find('\n') != std::string_view::npos) {
            rest.remove_prefix(rest.find('\n') + 1);
            --number;
        }
        const bool template_line = rest.substr(0, rest.find('\n')).find("{{") != std::string::npos;
        if (template_line && error.message.find("rendered") == std::string::npos) {
            error.message += " (a template has to be rendered first)";
        }
        return error;
    }

    /// JSON, or YAML that begins like it. What is neither is reported as what it looks like.
    Result<void> read_json(const YamlSection& section, std::size_t first) {
        const std::size_t before = manifests_.size();
        auto done = read_json_values(section);
        if (done) return done;
        manifests_.resize(before);
        auto as_yaml = read_yaml_section(section);
        if (as_yaml) return as_yaml;
        const std::size_t next = section.body.find_first_not_of(" \t\r\n", first + 1);
        const std::string_view starts = section.body[first] == '{' ? "\"}" : "\"{[]";
        const bool looks_like_json = next != std::string_view::npos &&
                                     starts.find(section.body[next]) != std::string_view::npos;
        return looks_like_json ? done : as_yaml;
    }

    Result<void> read_json_values(const YamlSection& section) {
        std::size_t lines = 0;
        const char* counted = section.body.data();
        for (const std::string_view value : split_json(section.body)) {
            lines += static_cast<std::size_t>(std::count(counted, value.data(), '\n'));
            counted = value.data();
            if (auto parsed = base::parse_json(std::string(value), limits_); !parsed) {
                return tl::unexpected(json_error(std::move(parsed).error(), value, text_));
            }
            auto added = add({.format = ManifestFormat::json,
                              .line = section.line + lines,
                              .text = std::string(value),
                              .json = std::string(value)});
            if (!added) return added;
        }
        return {};
    }

    Result<void> read_yaml_section(const YamlSection& section) {
        const auto tree = read_yaml(section.body, limits_, section.line);
        if (!tree) return tl::unexpected(tree.error());
        if (tree->nodes.empty()) return {};
        auto json = yaml_to_json(*tree, limits_, section.line);
        if (!json) return tl::unexpected(std::move(json).error());
        if (*json == "null") return {};
        return add({.format = ManifestFormat::yaml,
                    .line = section.line,
                    .text = section.comments + std::string(section.body),
                    .json = *std::move(json)});
    }

    Result<void> add(Manifest manifest) {
        if (manifests_.size() == max_documents) {
            return base::fail(ErrorKind::invalid_input,
                              fmt::format("more than {} documents", max_documents),
                              fmt::format("{}:1", manifest.line));
        }
        manifest.number = manifests_.size() + 1;
        manifests_.push_back(std::move(manifest));
        return {};
    }

    std::string_view text_;
    const base::JsonLimits& limits_;
    std::vector<Manifest> manifests_;
};

/// Whether two JSON texts have the same value.
bool same_json(std::string_view left, std::string_view right) {
    const auto a = base::parse_json(std::string(left), no_limits);
    const auto b = base::parse_json(std::string(right), no_limits);
    return a && b && base::same_value(a->root(), b->root());
}

std::string drop_items(std::string_view json, std::span<const std::size_t> dropped) {
    const std::vector<std::string_view> items = element_texts(json, "items");
    std::string out;
    const char* copied = json.data();
    const auto offset = [](const char* to, const char* from) {
        return static_cast<std::size_t>(to - from);
    };
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (!std::ranges::binary_search(dropped, i)) continue;
        // With the comma before it; the first ones that go take the comma behind them.
        const bool is_leading = i < dropped.size() && dropped[i] == i;
        const char* begin = items[i].data();
        const char* end = begin + items[i].size();
        if (is_leading && i + 1 < items.size()) {
            end = items[i + 1].data();
        } else if (!is_leading) {
            begin = items[i - 1].data() + items[i - 1].size();
        }
        out.append(copied, offset(begin, copied));
        copied = end;
    }
    return out.append(copied, offset(json.data() + json.size(), copied));
}

std::optional<std::string> try_in_place(const Manifest& manifest, const JsonPatch& patch,
                                        std::span<const std::size_t> dropped,
                                        std::string_view wanted) {
    const auto tree = read_yaml(manifest.text, no_limits);
    if (!tree) return std::nullopt;
    auto edited = edit_yaml(manifest.text, *tree, patch, dropped);
    if (!edited) return std::nullopt;
    const auto again = read_yaml(*edited, no_limits);
    if (!again) return std::nullopt;
    const auto value = yaml_to_json(*again, no_limits);
    if (!value || !same_json(*value, wanted)) return std::nullopt;
    return edited;
}

}  // namespace

Result<std::vector<Manifest>> read_manifests(std::string_view text,
                                             const base::JsonLimits& limits) {
    if (text.size() > limits.max_bytes) {
        return base::fail(
            ErrorKind::invalid_input,
            fmt::format("{} bytes, at most {} are allowed", text.size(), limits.max_bytes), "1:1");
    }
    if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
        return base::fail(ErrorKind::invalid_input, "the text is UTF-16; write it as UTF-8", "1:1");
    }
    if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
    return Reader(text, limits).read();
}

Result<PatchedManifest> patch_manifest(const Manifest& manifest, const JsonPatch& patch,
                                       std::span<const std::size_t> dropped) {
    auto wanted = apply_patch(manifest.json, patch);
    if (!wanted) return tl::unexpected(std::move(wanted).error());
    if (!dropped.empty()) *wanted = drop_items(*wanted, dropped);
    if (manifest.format == ManifestFormat::json) return PatchedManifest{*std::move(wanted), false};

    if (auto edited = try_in_place(manifest, patch, dropped, *wanted)) {
        return PatchedManifest{*std::move(edited), false};
    }

    std::string written = json_to_yaml(*wanted);
    const auto tree = read_yaml(written, no_limits);
    const auto value = tree ? yaml_to_json(*tree, no_limits) : tl::unexpected(tree.error());
    if (!value || !same_json(*value, *wanted)) {
        return base::fail(ErrorKind::internal, "the document could not be written anew");
    }
    return PatchedManifest{std::move(written), true};
}

}  // namespace drawbridge::kube
