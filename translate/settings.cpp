#include "translate/settings.hpp"

#include "kube/manifest.hpp"
#include "translate/settings_fields.hpp"
#include "translate/settings_hami.hpp"
#include "translate/settings_problems.hpp"
#include "translate/settings_reader.hpp"

#include <fmt/format.h>

#include <utility>

namespace drawbridge::translate {
namespace {

constexpr std::string_view accepted =
    "this is no settings document; accepted are: apiVersion drawbridge.dev/v1, kind Settings; "
    "HAMi's "
    "device-config.yaml; a ConfigMap with one of them under settings.yaml or device-config.yaml; "
    "HAMi's "
    "MutatingWebhookConfiguration; a List of these";

constexpr std::size_t max_items = 64;

/// A document and where it lies in what was given.
struct Source {
    base::JsonView document;
    std::string place;
};

/// The documents that make up the settings, sorted by what they are.
class Sources {
public:
    explicit Sources(Problems& problems) : problems_(problems) {}

    void add(base::JsonView document, const std::string& place) {
        const std::string_view kind = document["kind"].string_or("");
        const std::string_view version = document["apiVersion"].string_or("");
        if (kind == settings_kind || version.substr(0, version.find('/')) == "drawbridge.dev") {
            ours.push_back({document, place});
        } else if (kind == "ConfigMap") {
            add_config_map(document, place);
        } else if (kind == "MutatingWebhookConfiguration") {
            webhooks.push_back({document, place});
        } else if (kind == "List" && place.empty()) {
            add_list(document);
        } else if (kind.empty() && document.is_object() && !document["nvidia"].is_missing()) {
            device_configs.push_back({document, place});
        } else {
            problems_.add(place, accepted);
        }
    }

    std::vector<Source> ours;
    std::vector<Source> device_configs;
    std::vector<Source> webhooks;

private:
    void add_list(base::JsonView list) {
        const base::JsonView items = list["items"];
        if (items.size() == 0 || items.size() > max_items) {
            problems_.add("/items", fmt::format("must list 1 to {} documents", max_items));
            return;
        }
        for (std::size_t i = 0; i < items.size(); ++i)
            add(items.at(i), fmt::format("/items/{}", i));
    }

    void add_config_map(base::JsonView config_map, const std::string& place) {
        const base::JsonView data = config_map["data"];
        const bool has_ours = add_inner(data, place, "settings.yaml", ours);
        const bool has_hami = add_inner(data, place, "device-config.yaml", device_configs);
        if (!has_ours && !has_hami) {
            problems_.add(place + "/data", "has neither settings.yaml nor device-config.yaml");
        }
    }

    /// Reads the document inside one member of a ConfigMap; false if there is no such member.
    bool add_inner(base::JsonView data, const std::string& place, std::string_view key,
                   std::vector<Source>& sources) {
        const base::JsonView text = data[key];
        if (text.is_absent()) return false;
        const std::string here = fmt::format("{}/data/{}", place, key);
        auto manifests = kube::read_manifests(text.string_or(""));
        if (!manifests) {
            problems_.add(here, manifests.error().message);
        } else if (manifests->size() != 1) {
            problems_.add(here, fmt::format("must hold one document, found {}", manifests->size()));
        } else if (auto document = base::parse_json(std::move(manifests->front().json));
                   !document) {
            problems_.add(here, document.error().message);
        } else {
            inner_.push_back(std::move(*document));
            sources.push_back({inner_.back().root(), here + "#"});
        }
        return true;
    }

    Problems& problems_;
    std::vector<base::JsonDocument> inner_;
};

/// The profile that our document names; the default where there is none or an unknown one, which is
/// a problem.
Settings profile_of(const std::vector<Source>& ours, Problems& problems) {
    if (ours.empty() || ours.front().document["profile"].is_absent()) return Settings{};
    const auto& [document, place] = ours.front();
    const auto name = document["profile"].as_string();
    if (!name) {
        problems.add(place + "/profile", "must be the name of a profile");
        return Settings{};
    }
    auto settings = profile_settings(*name);
    if (settings) return std::move(*settings);
    problems.add(place + settings.error().path, settings.error().message);
    return Settings{};
}

/// Whether version and kind are those this program knows.
bool has_known_form(const Source& source, Problems& problems) {
    const auto version = source.document["apiVersion"].string_or("");
    if (version != settings_api_version) {
        problems.add(source.place + "/apiVersion",
                     fmt::format("must be {} (this version reads no other), found {}",
                                 settings_api_version, shown(version)));
        return false;
    }
    const auto kind = source.document["kind"].string_or("");
    if (kind != settings_kind) {
        problems.add(source.place + "/kind",
                     fmt::format("must be {}, found {}", settings_kind, shown(kind)));
        return false;
    }
    return true;
}

void apply_ours(const Source& source, Settings& settings, Problems& problems) {
    if (!has_known_form(source, problems)) return;
    FieldReader reader(source.document, source.place, problems);
    for (const std::string_view key : {"apiVersion", "kind", "metadata", "profile"})
        reader.skip(key);
    visit_fields(reader, settings);
    reader.report_unknown();
}

}  // namespace

base::Result<Settings> read_settings(base::JsonView document) {
    Problems problems;
    Sources sources(problems);
    sources.add(document, "");
    for (const auto* same : {&sources.ours, &sources.device_configs, &sources.webhooks}) {
        if (same->size() > 1)
            problems.add(same->at(1).place, "is a second document of its sort; keep one of them");
    }
    // HAMi's files say what the site has; our own document has the last word.
    Settings settings = profile_of(sources.ours, problems);
    for (const auto& [webhook, place] : sources.webhooks)
        apply_hami_webhook(webhook, place, settings, problems);
    for (const auto& [config, place] : sources.device_configs)
        apply_hami_device_config(config, place, settings, problems);
    for (const auto& source : sources.ours)
        apply_ours(source, settings, problems);
    check_together(settings, sources.ours.empty() ? "" : sources.ours.front().place, problems);
    if (!problems.empty()) return tl::unexpected(problems.error());
    return settings;
}

}  // namespace drawbridge::translate
