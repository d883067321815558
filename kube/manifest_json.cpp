// The half of kube/manifest_tree.hpp that gives a YAML document its value.

#include "kube/manifest_scalar.hpp"
#include "kube/manifest_tree.hpp"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace drawbridge::kube {
namespace {

base::Result<Scalar> resolve(const YamlNode& node) {
    if (!node.tag.empty()) return resolve_tagged(node.tag, node.text);
    if (node.style == YamlStyle::plain) return resolve_plain(node.text);
    return Scalar{.kind = ScalarKind::string, .text = node.text};
}

/// About what Kubernetes' reader takes before it calls a document's aliasing excessive.
constexpr std::size_t max_alias_steps = 400'000;

bool is_merge_key(const YamlNode& key) {
    return key.kind == YamlKind::scalar && key.text == "<<" &&
           (key.tag.empty() ? key.style == YamlStyle::plain : key.tag == "tag:yaml.org,2002:merge");
}

/// Where a value stands, as far as that counts.
enum class Place { anywhere, amounts, amount };

/// `limits` and `requests` hold amounts: Kubernetes reads them by their text, not as numbers.
Place place_below(Place parent, std::string_view name) {
    if (parent == Place::amounts) return Place::amount;
    return name == "limits" || name == "requests" ? Place::amounts : Place::anywhere;
}

/// Whether a number can stand in JSON as it is written.
bool is_json_number(std::string_view text) {
    const auto read = base::parse_json(std::string(text));
    return read && read->root().kind() == base::JsonKind::number;
}

class Writer {
public:
    Writer(const YamlTree& tree, const base::JsonLimits& limits, std::size_t first_line)
        : tree_(tree), limits_(limits), first_line_(first_line) {}

    base::Result<std::string> write() {
        if (tree_.nodes.empty()) return "null";
        if (auto done = value(0, 0, Place::anywhere); !done) return tl::unexpected(done.error());
        return std::move(out_);
    }

private:
    /// The members of a mapping in the order in which their names first appear.
    struct Members {
        std::vector<std::pair<std::string, YamlIndex>> list;
        std::unordered_map<std::string, std::size_t> places;
    };

    tl::unexpected<base::Error> fail(const YamlNode& node, std::string message) const {
        return base::fail(base::ErrorKind::invalid_input, std::move(message),
                          fmt::format("{}:{}", node.line + first_line_, node.column + 1));
    }

    /// Every step costs, whether it makes text or not, and those behind aliases have a bound of
    /// their own.
    base::Result<void> spend(const YamlNode& node, std::size_t depth) {
        if (depth > limits_.max_depth) {
            return fail(node, fmt::format("more than {} lists and maps inside each other, or an "
                                          "anchor that contains itself",
                                          limits_.max_depth));
        }
        if (out_.size() > limits_.max_bytes) {
            return fail(node, fmt::format("the value comes to more than {} bytes as JSON",
                                          limits_.max_bytes));
        }
        if (alias_depth_ > 0 && ++alias_steps_ > max_alias_steps) {
            return fail(node, "the document's aliases multiply to too much");
        }
        return {};
    }

    // Recursion is bounded by `spend`.
    base::Result<void> value(YamlIndex index, std::size_t depth, Place place) {
        const YamlNode& node = tree_[index];
        if (auto allowed = spend(node, depth); !allowed) return allowed;
        switch (node.kind) {
            case YamlKind::alias: {
                ++alias_depth_;
                auto done = value(node.target, depth, place);
                --alias_depth_;
                return done;
            }
            case YamlKind::scalar:
                return scalar(node, place);
            case YamlKind::sequence: {
                char before = '[';
                for (const YamlIndex child : node.children) {
                    out_ += std::exchange(before, ',');
                    if (auto done = value(child, depth + 1, Place::anywhere); !done) return done;
                }
                out_ += before == '[' ? "[]" : "]";
                return {};
            }
            case YamlKind::mapping:
                return mapping(node, depth, place);
        }
        return {};
    }

    base::Result<void> scalar(const YamlNode& node, Place place) {
        const auto scalar = resolve(node);
        if (!scalar) return fail(node, scalar.error().message);
        if (scalar->kind == ScalarKind::string) {
            base::append_json_string(out_, scalar->text);
        } else if (scalar->text.empty()) {
            return fail(node, fmt::format("{:.80} is no number that JSON can hold; a text needs "
                                          "quotes",
                                          node.text));
        } else {
            const bool spelled = place == Place::amount && scalar->kind == ScalarKind::real &&
                                 is_json_number(node.text);
            out_ += spelled ? node.text : scalar->text;
        }
        return {};
    }

    base::Result<void> mapping(const YamlNode& node, std::size_t depth, Place place) {
        Members members;
        if (auto done = collect(node, depth, members); !done) return done;
        char before = '{';
        for (const auto& [name, child] : members.list) {
            out_ += std::exchange(before, ',');
            base::append_json_string(out_, name);
            out_ += ':';
            if (auto done = value(child, depth + 1, place_below(place, name)); !done) return done;
        }
        out_ += before == '{' ? "{}" : "}";
        return {};
    }

    /// Members in the order of the text, a later one of the same name in the place of an earlier:
    /// that is how Kubernetes' reader merges, also where the merge key comes last.
    base::Result<void> collect(const YamlNode& node, std::size_t depth, Members& members) {
        std::unordered_set<std::string> own;
        for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
            const YamlNode& key = tree_[node.children[i]];
            const YamlIndex child = node.children[i + 1];
            if (auto allowed = spend(key, depth); !allowed) return allowed;
            if (is_merge_key(key)) {
                if (auto done = merge(child, depth, members); !done) return done;
                continue;
            }
            auto name = yaml_key(tree_, node.children[i]);
            if (!name) return fail(key, name.error().message);
            if (!own.insert(*name).second) {
                return fail(key, fmt::format("the key \"{:.80}\" is there twice", *name));
            }
            const auto [place, is_new] = members.places.try_emplace(*name, members.list.size());
            if (is_new) {
                members.list.emplace_back(std::move(*name), child);
            } else {
                members.list[place->second].second = child;
            }
        }
        return {};
    }

    base::Result<void> merge(YamlIndex index, std::size_t depth, Members& members) {
        const YamlNode& given = tree_[index];
        if (auto allowed = spend(given, depth); !allowed) return allowed;
        const YamlNode& node = given.kind == YamlKind::alias ? tree_[given.target] : given;
        if (node.kind == YamlKind::mapping) return collect_part(node, depth, members);
        if (given.kind == YamlKind::sequence) {
            for (std::size_t i = given.children.size(); i-- > 0;) {  // the first one wins
                const YamlNode& child = tree_[given.children[i]];
                const YamlNode& part = child.kind == YamlKind::alias ? tree_[child.target] : child;
                if (part.kind != YamlKind::mapping) return fail(child, no_merge);
                if (auto done = collect_part(part, depth, members); !done) return done;
            }
            return {};
        }
        return fail(given, no_merge);
    }

    base::Result<void> collect_part(const YamlNode& node, std::size_t depth, Members& members) {
        ++alias_depth_;
        auto done = collect(node, depth + 1, members);
        --alias_depth_;
        return done;
    }

    static constexpr const char* no_merge = "<< takes a map, or a list of maps";

    const YamlTree& tree_;
    const base::JsonLimits& limits_;
    std::size_t first_line_;
    std::string out_;
    std::size_t alias_depth_ = 0;
    std::size_t alias_steps_ = 0;
};

}  // namespace

base::Result<std::string> yaml_to_json(const YamlTree& tree, const base::JsonLimits& limits,
                                       std::size_t first_line) {
    return Writer(tree, limits, first_line).write();
}

base::Result<std::string> yaml_key(const YamlTree& tree, YamlIndex key) {
    const YamlNode& node = tree[key].kind == YamlKind::alias ? tree[tree[key].target] : tree[key];
    if (node.kind != YamlKind::scalar) {
        return base::fail(base::ErrorKind::invalid_input,
                          "a key cannot be a list or a map (a template has to be rendered first)");
    }
    const auto scalar = resolve(node);
    if (!scalar) return tl::unexpected(scalar.error());
    return key_text(*scalar);
}

}  // namespace drawbridge::kube
