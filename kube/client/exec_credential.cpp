#include "kube/client/exec_credential.hpp"

#include "base/hash.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

namespace drawbridge::kube::client {

using base::ErrorKind;
using base::Result;

namespace {

/// The number in `text[at, at + length)`, only digits.
std::optional<int> digits(std::string_view text, std::size_t at, std::size_t length) {
    if (at + length > text.size()) return std::nullopt;
    int value = 0;
    for (const char c : text.substr(at, length)) {
        if (c < '0' || c > '9') return std::nullopt;
        value = value * 10 + (c - '0');
    }
    return value;
}

/// `Z`, or `+hh:mm`, as the minutes to subtract.
std::optional<std::chrono::minutes> offset_of(std::string_view zone) {
    if (zone == "Z" || zone == "z") return std::chrono::minutes(0);
    if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':')
        return std::nullopt;
    const auto hours = digits(zone, 1, 2);
    const auto minutes = digits(zone, 4, 2);
    if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
    const std::chrono::minutes offset(*hours * 60 + *minutes);
    return zone[0] == '-' ? -offset : offset;
}

base::Error plugin_fault(const ExecPlugin& plugin, std::string_view what) {
    return {ErrorKind::unavailable,
            fmt::format("exec plugin {}: its output {}", plugin.command, what), plugin.command};
}

}  // namespace

std::string exec_info(const ExecPlugin& plugin, const ClusterEntry& cluster,
                      std::string_view authorities) {
    base::JsonWriter json;
    json.begin_object()
        .member("apiVersion", plugin.api_version)
        .member("kind", "ExecCredential")
        .key("spec")
        .begin_object()
        .key("interactive")
        .boolean(false);
    if (plugin.provide_cluster_info) {
        json.key("cluster").begin_object().member("server", cluster.server);
        if (!cluster.tls_server_name.empty()) {
            json.member("tls-server-name", cluster.tls_server_name);
        }
        if (cluster.skip_verify) json.key("insecure-skip-tls-verify").boolean(true);
        if (!authorities.empty()) {
            json.member("certificate-authority-data", base::base64_encode(authorities));
        }
        if (!plugin.cluster_config.empty()) json.key("config").raw(plugin.cluster_config);
        json.end_object();
    }
    json.end_object().end_object();
    return json.take();
}

Result<ExecCredential> read_exec_credential(const ExecPlugin& plugin, std::string output) {
    const auto document = base::parse_json(std::move(output));
    if (!document) return tl::unexpected(plugin_fault(plugin, "is not one JSON object"));
    const base::JsonView root = document->root();
    if (root["kind"].as_string() != "ExecCredential" ||
        root["apiVersion"].as_string() != plugin.api_version) {
        return tl::unexpected(plugin_fault(
            plugin, fmt::format("is not an ExecCredential of {}, which the kubeconfig names",
                                plugin.api_version)));
    }
    const base::JsonView status = root["status"];
    ExecCredential credential{
        .token = std::string(status["token"].string_or("")),
        .certificate = std::string(status["clientCertificateData"].string_or("")),
        .key = std::string(status["clientKeyData"].string_or("")),
        .expires = std::nullopt};
    if (credential.certificate.empty() != credential.key.empty()) {
        return tl::unexpected(
            plugin_fault(plugin, "has only one of clientCertificateData and clientKeyData"));
    }
    if (credential.token.empty() && credential.certificate.empty()) {
        return tl::unexpected(plugin_fault(plugin, "has neither a token nor a client certificate"));
    }
    if (const auto expires = status["expirationTimestamp"]; !expires.is_absent()) {
        credential.expires = parse_instant(expires.string_or(""));
        if (!credential.expires) {
            return tl::unexpected(plugin_fault(
                plugin, "has an expirationTimestamp that is not like 2026-01-02T15:04:05Z"));
        }
    }
    return credential;
}

std::optional<std::chrono::system_clock::time_point> parse_instant(std::string_view text) {
    // 2006-01-02T15:04:05[.999]Z
    if (text.size() < 20 || text[4] != '-' || text[7] != '-' ||
        (text[10] != 'T' && text[10] != 't') || text[13] != ':' || text[16] != ':') {
        return std::nullopt;
    }
    const auto year = digits(text, 0, 4);
    const auto month = digits(text, 5, 2);
    const auto day = digits(text, 8, 2);
    const auto hour = digits(text, 11, 2);
    const auto minute = digits(text, 14, 2);
    const auto second = digits(text, 17, 2);
    std::string_view zone = text.substr(19);
    if (zone.front() == '.') {
        const std::size_t end = zone.find_first_not_of("0123456789", 1);
        if (end == std::string_view::npos || end == 1) return std::nullopt;
        zone.remove_prefix(end);
    }
    const auto offset = offset_of(zone);
    if (!year || !month || !day || !hour || !minute || !second || !offset) return std::nullopt;
    const std::chrono::year_month_day date(std::chrono::year(*year),
                                           std::chrono::month(static_cast<unsigned>(*month)),
                                           std::chrono::day(static_cast<unsigned>(*day)));
    if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
    return std::chrono::sys_days(date) + std::chrono::hours(*hour) + std::chrono::minutes(*minute) -
           *offset + std::chrono::seconds(*second);
}

}  // namespace drawbridge::kube::client
