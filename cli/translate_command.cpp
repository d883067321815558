#include "cli/translate_command.hpp"

#include "cli/input.hpp"
#include "cli/lists.hpp"
#include "cli/object.hpp"
#include "kube/manifest.hpp"
#include "translate/build_template.hpp"
#include "translate/cluster_facts.hpp"
#include "translate/notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace drawbridge::cli {

namespace {

using translate::Severity;
using translate::Verdict;

constexpr base::JsonLimits file_limits{64U << 20U, 128, 10'000'000};

/// A document with where it came from, parsed.
struct Document {
    const kube::Manifest* manifest = nullptr;
    Origin origin;
    base::JsonDocument json;
    bool rewritten = false;  ///< lists inside it were opened

    [[nodiscard]] bool is_list() const { return cli::is_list(json.root()); }
};

/// What happens to a List as a whole.
struct ListChange {
    kube::JsonPatch patch;
    std::vector<std::size_t> left_out;
};

class Command {
public:
    explicit Command(const TranslateOptions& options)
        : options_(options), notices_(options.notices, options.colour), output_(options.output) {}

    CommandResult run();

private:
    base::Result<void> prepare();
    base::Result<void> read_sizes();
    base::Result<void> read_documents();
    void learn_from(base::JsonView object);
    base::Result<void> translate(const Document& document);
    base::Result<void> translate_list(const Document& document);
    base::Result<void> translate_item(const Origin& origin, const std::string& text,
                                      ListChange& change);
    ObjectAnswer answer_to(base::JsonView object, const Identity& identity);
    void resolve_references(const Identity& identity, ObjectAnswer& answer);
    void compare_given(const Identity& identity, ObjectAnswer& answer);
    void check_own_name(const Identity& identity, ObjectAnswer& answer);
    void tell(const Origin& origin, const Identity& identity, const ObjectAnswer& answer);
    void note_rewritten(const Origin& origin, const Identity& identity);
    void write_templates(const Identity& identity, const ObjectAnswer& answer);
    CommandResult failed(const base::Error& error);

    const TranslateOptions& options_;
    Notices notices_;
    Output output_;
    TranslateContext context_;
    std::vector<InputFile> files_;
    std::vector<std::vector<kube::Manifest>> manifests_;  ///< a file each
    std::vector<Document> documents_;
    /// Templates in the input, by namespace and name; without value what cannot be one of ours.
    std::map<std::pair<std::string, std::string>, std::optional<kube::ClaimSpec>> given_;
    bool denied_ = false;
    bool warned_ = false;
};

base::Result<void> Command::read_sizes() {
    auto& sizes = context_.cluster.memory_sizes;
    if (!options_.fleet.empty()) {
        const auto text = read_text(options_.fleet);
        if (!text) return tl::unexpected(text.error());
        auto found = translate::read_fleet(*text, context_.settings.target);
        if (!found) return tl::unexpected(at_file(found.error(), options_.fleet));
        sizes = std::move(*found);
    }
    if (!options_.device_memory.empty()) {
        auto found = translate::parse_memory_sizes(options_.device_memory);
        if (!found) return tl::unexpected(at_file(found.error(), "--device-memory"));
        sizes = std::move(*found);
    }
    return {};
}

base::Result<void> Command::prepare() {
    const auto minor = translate::parse_kubernetes_version(options_.kubernetes_version);
    if (!minor) return tl::unexpected(at_file(minor.error(), "--kubernetes-version"));
    context_.cluster.minor = *minor;
    auto settings = read_settings(options_.settings);
    if (!settings) return tl::unexpected(settings.error());
    context_.settings = std::move(*settings);
    if (auto sizes = read_sizes(); !sizes) return sizes;
    auto files = read_inputs(options_.files, options_.recursive);
    if (!files) return tl::unexpected(files.error());
    files_ = std::move(*files);
    return read_documents();
}

base::Result<void> Command::read_documents() {
    for (const InputFile& file : files_) {
        auto manifests = kube::read_manifests(file.text, file_limits);
        if (!manifests) return tl::unexpected(at_file(manifests.error(), file.name));
        manifests_.push_back(std::move(*manifests));
    }
    for (std::size_t index = 0; index < files_.size(); ++index) {
        for (kube::Manifest& manifest : manifests_[index]) {
            auto json = base::parse_json(manifest.json, file_limits);
            const bool rewritten = json && flatten(manifest, json->root());
            if (rewritten) json = base::parse_json(manifest.json, file_limits);
            if (!json) return tl::unexpected(at_file(json.error(), files_[index].name));
            if (!json->root().is_object()) {
                return base::fail(base::ErrorKind::invalid_input,
                                  "a manifest is a map with apiVersion and kind, and this is none",
                                  fmt::format("{}:{}:1", files_[index].name, manifest.line));
            }
            documents_.push_back({&manifest,
                                  {files_[index].name, manifest.number, {}},
                                  std::move(*json),
                                  rewritten});
        }
    }
    if (documents_.empty()) {
        return base::fail(base::ErrorKind::not_found, "there is no manifest to translate",
                          files_.size() == 1 ? files_.front().name : std::string());
    }
    for (const Document& document : documents_) {
        const base::JsonView root = document.json.root();
        if (!document.is_list()) learn_from(root);
        if (!document.is_list()) continue;
        for (std::size_t index = 0; index < root["items"].size(); ++index) {
            learn_from(root["items"].at(index));
        }
    }
    return {};
}

/// Namespaces and templates in the input count wherever they stand in it.
void Command::learn_from(base::JsonView object) {
    const Identity identity = identify(object, {});
    if (identity.kind == "Namespace" && object["apiVersion"].string_or("") == "v1") {
        auto& labels = context_.namespace_labels[identity.name];
        for (const auto& [key, value] : object["metadata"]["labels"].members()) {
            labels[std::string(key)] = std::string(value.string_or(""));
        }
    } else if (identity.kind == "ResourceClaimTemplate") {
        const std::string_view name_space =
            object["metadata"]["namespace"].string_or(options_.name_space);
        const std::pair key(std::string(name_space), identity.name);
        output_.known_template(key.first, key.second);
        auto content = kube::claim_spec_from_json(object["spec"]["spec"]["devices"]);
        given_.insert_or_assign(key, content ? std::optional(std::move(*content)) : std::nullopt);
    }
}

/// A template that a pod names already: in the input, made again from the pod, or nobody here can
/// tell.
void Command::resolve_references(const Identity& identity, ObjectAnswer& answer) {
    for (const auto& [name, pod] : answer.referenced_templates) {
        if (given_.contains({identity.name_space, name})) continue;
        const auto restored =
            std::ranges::find(answer.restorable, name, &kube::ClaimTemplate::name);
        if (restored != answer.restorable.end()) {
            answer.templates.push_back(*restored);
            continue;
        }
        translate::report(
            answer.diagnostics, translate::Code::template_not_here,
            {pod / "spec" / "resourceClaims", {}, "resourceClaims", name},
            fmt::format("the pod names template {}, which is not in the input", name));
    }
}

/// A template of the input that has the name of one of ours, and another content.
void Command::compare_given(const Identity& identity, ObjectAnswer& answer) {
    bool conflict = false;
    for (const kube::ClaimTemplate& made : answer.templates) {
        const auto given = given_.find({identity.name_space, made.name});
        if (given == given_.end()) continue;
        if (given->second && kube::same_content(*given->second, made.spec)) continue;
        conflict = true;
        translate::report(
            answer.diagnostics, translate::Code::template_conflict, {{}, {}, {}, made.name},
            fmt::format("the input holds a ResourceClaimTemplate {} with other content",
                        made.name));
    }
    if (conflict) answer.deny();
}

/// A template under a name of ours whose content was edited: in the cluster it would be in the way
/// of every pod that needs the right one.
void Command::check_own_name(const Identity& identity, ObjectAnswer& answer) {
    if (identity.kind != "ResourceClaimTemplate" || !translate::is_own_template(identity.name))
        return;
    const auto given = given_.find({identity.name_space, identity.name});
    if (given == given_.end() || !given->second ||
        translate::names_its_content(identity.name, *given->second))
        return;
    translate::report(answer.diagnostics, translate::Code::template_conflict,
                      {{}, {}, {}, identity.name},
                      fmt::format("the content of ResourceClaimTemplate {} is not the one that its "
                                  "name is made from",
                                  identity.name),
                      "Undo the edit, or give the template a name of your own.");
    answer.deny();
}

ObjectAnswer Command::answer_to(base::JsonView object, const Identity& identity) {
    ObjectAnswer answer = translate_object(object, identity, context_);
    check_own_name(identity, answer);
    if (answer.verdict == Verdict::deny) return answer;
    resolve_references(identity, answer);
    compare_given(identity, answer);
    return answer;
}

void Command::tell(const Origin& origin, const Identity& identity, const ObjectAnswer& answer) {
    for (const auto& diagnostic : answer.diagnostics) {
        warned_ = warned_ || diagnostic.severity == Severity::warning;
        notices_.diagnostic(origin, identity, diagnostic);
    }
    denied_ = denied_ || answer.verdict == Verdict::deny;
    notices_.verdict(origin, identity, answer.verdict);
}

void Command::note_rewritten(const Origin& origin, const Identity& identity) {
    translate::Diagnostics notes;
    translate::report(notes, translate::Code::document_rewritten, {{}, {}, identity.kind, {}},
                      "the document was written anew: its text could not be edited in place");
    notices_.diagnostic(origin, identity, notes.front());
}

void Command::write_templates(const Identity& identity, const ObjectAnswer& answer) {
    for (const auto& made : answer.templates)
        output_.claim_template(made, identity.name_space);
}

base::Result<void> Command::translate(const Document& document) {
    const base::JsonView object = document.json.root();
    const Identity identity = identify(object, options_.name_space);
    const ObjectAnswer answer = answer_to(object, identity);
    if (answer.verdict == Verdict::deny) {
        tell(document.origin, identity, answer);
        return {};
    }
    write_templates(identity, answer);
    if (answer.patch.empty()) {
        output_.unchanged(*document.manifest);
    } else {
        const auto rewritten = output_.changed(*document.manifest, answer.patch);
        if (!rewritten) return tl::unexpected(at_file(rewritten.error(), document.origin.file));
        if (*rewritten) note_rewritten(document.origin, identity);
    }
    tell(document.origin, identity, answer);
    return {};
}

base::Result<void> Command::translate_item(const Origin& origin, const std::string& text,
                                           ListChange& change) {
    const auto json = base::parse_json(text, file_limits);
    if (!json) return tl::unexpected(at_file(json.error(), origin.file));
    const Identity identity = identify(json->root(), options_.name_space);
    const ObjectAnswer answer = answer_to(json->root(), identity);
    tell(origin, identity, answer);
    if (answer.verdict == Verdict::deny) {
        change.left_out.push_back(*origin.item);
        return {};
    }
    write_templates(identity, answer);
    if (output_.form() == OutputForm::yaml) {
        change.patch.append(answer.patch.below(kube::PointerPath() / "items" / *origin.item));
        return {};
    }
    auto changed = kube::apply_patch(text, answer.patch);
    if (!changed) return tl::unexpected(at_file(changed.error(), origin.file));
    output_.part(std::move(*changed));
    return {};
}

base::Result<void> Command::translate_list(const Document& document) {
    const base::JsonView list = document.json.root();
    const auto texts = kube::element_texts(document.manifest->json, "items");
    ListChange change;
    if (document.rewritten) note_rewritten(document.origin, identify(list, {}));
    for (std::size_t index = 0; index < texts.size(); ++index) {
        Origin origin = document.origin;
        origin.item = index;
        const std::string text = whole_item(list, list["items"].at(index), texts[index]);
        if (auto done = translate_item(origin, text, change); !done) return done;
    }
    if (output_.form() == OutputForm::json) return {};
    if (change.patch.empty() && change.left_out.empty()) {
        output_.unchanged(*document.manifest);
        return {};
    }
    const auto rewritten = output_.changed(*document.manifest, change.patch, change.left_out);
    if (!rewritten) return tl::unexpected(at_file(rewritten.error(), document.origin.file));
    if (*rewritten) note_rewritten(document.origin, identify(list, {}));
    return {};
}

CommandResult Command::failed(const base::Error& error) {
    Notices only(options_.notices, options_.colour);
    only.failure(error);
    return {{}, only.text(), 1};
}

CommandResult Command::run() {
    if (auto ready = prepare(); !ready) return failed(ready.error());
    for (const Document& document : documents_) {
        auto done = document.is_list() ? translate_list(document) : translate(document);
        if (!done) return failed(done.error());
    }
    const int status = denied_ ? 2 : options_.strict && warned_ ? 3 : 0;
    return {output_.text(), notices_.text(), status};
}

}  // namespace

CommandResult run_translate(const TranslateOptions& options) {
    return Command(options).run();
}

}  // namespace drawbridge::cli
