#include "cli/webhook_configuration.hpp"

#include "base/atomic_file.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "certs/pem.hpp"
#include "cli/input.hpp"
#include "kube/manifest.hpp"
#include "translate/cluster_facts.hpp"
#include "translate/match_conditions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::cli {

namespace {

using base::JsonWriter;

constexpr std::size_t largest_bundle = 1U << 20U;
// Our own deadlines are shorter; a caller waits for all webhooks of a request together.
constexpr std::int64_t seconds_to_answer = 5;

void write_texts(JsonWriter& json, std::string_view key,
                 const std::vector<std::string_view>& texts) {
    json.key(key).begin_array();
    for (const std::string_view text : texts)
        json.string(text);
    json.end_array();
}

void write_client(JsonWriter& json, const WebhookOptions& options, std::string_view bundle) {
    json.key("clientConfig").begin_object();
    if (!bundle.empty()) json.member("caBundle", base::base64_encode(bundle));
    json.key("service").begin_object();
    json.member("name", options.service).member("namespace", options.name_space);
    json.member("path", "/mutate").key("port").integer(443);
    json.end_object().end_object();
}

/// Namespaces that must start without us, those whose mode is not to translate, and those that
/// opted out (design.md decisions 8 and 11): their labels never reach the webhook.
void write_namespaces(JsonWriter& json, const WebhookOptions& options,
                      const translate::Settings& settings) {
    std::map<std::string_view, std::vector<std::string_view>> left_alone = {
        {"drawbridge.dev/mode", {"off", "audit"}},
        {"kubernetes.io/metadata.name", {"kube-system", "kube-node-lease", options.name_space}}};
    for (const auto& [label, value] : settings.policy.opt_out_labels) {
        auto& values = left_alone[label];
        if (std::ranges::find(values, value) == values.end()) values.push_back(value);
    }
    json.key("namespaceSelector").begin_object().key("matchExpressions").begin_array();
    for (const auto& [label, values] : left_alone) {
        json.begin_object().member("key", label).member("operator", "NotIn");
        write_texts(json, "values", values);
        json.end_object();
    }
    json.end_array().end_object();
}

void write_rules(JsonWriter& json) {
    json.key("rules").begin_array().begin_object();
    write_texts(json, "apiGroups", {""});
    write_texts(json, "apiVersions", {"v1"});
    write_texts(json, "operations", {"CREATE", "UPDATE"});
    write_texts(json, "resources", {"pods"});
    json.member("scope", "Namespaced").end_object().end_array();
}

void write_conditions(JsonWriter& json, const translate::Settings& settings) {
    json.key("matchConditions").begin_array();
    for (const translate::MatchCondition& condition : translate::match_conditions(settings)) {
        json.begin_object().member("name", condition.name);
        json.member("expression", condition.expression).end_object();
    }
    json.end_array();
}

std::string configuration_json(const WebhookOptions& options, const translate::Settings& settings,
                               std::string_view bundle) {
    JsonWriter json;
    json.begin_object().member("apiVersion", "admissionregistration.k8s.io/v1");
    json.member("kind", "MutatingWebhookConfiguration").key("metadata").begin_object();
    // Called in the order of names: late, so that what others add is seen (dra.md 6.4).
    json.member("name", "zz-drawbridge").key("labels").begin_object();
    json.member("app.kubernetes.io/name", "drawbridge").end_object().end_object();
    json.key("webhooks").begin_array().begin_object().member("name", "pods.drawbridge.dev");
    write_texts(json, "admissionReviewVersions", {"v1"});
    write_client(json, options, bundle);
    json.member("failurePolicy", "Fail").member("matchPolicy", "Equivalent");
    json.member("reinvocationPolicy", "IfNeeded").member("sideEffects", "NoneOnDryRun");
    json.key("timeoutSeconds").integer(seconds_to_answer);
    write_rules(json);
    write_namespaces(json, options, settings);
    write_conditions(json, settings);
    json.end_object().end_array().end_object();
    return json.take();
}

/// The certificates of a file and nothing else of it: what is given out here is for everybody to
/// read.
base::Result<std::string> read_bundle(const std::string& path) {
    const auto text = base::read_file(path, largest_bundle);
    if (!text) return tl::unexpected(text.error());
    const auto refuse = [&](std::string_view reason) {
        return base::fail(base::ErrorKind::invalid_input,
                          fmt::format("{}: {}; --ca-bundle wants the PEM certificates of the "
                                      "authority that issued the webhook's certificate",
                                      path, reason));
    };
    if (text->find("PRIVATE KEY-----") != std::string::npos)
        return refuse("there is a private key in it");
    const auto certificates = certs::certificates_from_pem(*text);
    if (!certificates) return refuse(certificates.error().message);
    std::string bundle;
    for (const certs::X509Ptr& certificate : *certificates) {
        auto pem = certs::to_pem(*certificate);
        if (!pem) return pem;
        bundle += *pem;
    }
    return bundle;
}

}  // namespace

base::Result<std::string> webhook_configuration(const WebhookOptions& options) {
    const auto settings = read_settings(options.settings);
    if (!settings) return tl::unexpected(settings.error());
    std::string bundle;
    if (!options.ca_bundle.empty()) {
        auto read = read_bundle(options.ca_bundle);
        if (!read) return read;
        bundle = std::move(*read);
    }
    return kube::json_to_yaml(configuration_json(options, *settings, bundle));
}

}  // namespace drawbridge::cli
