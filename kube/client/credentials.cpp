#include "kube/client/credentials.hpp"

#include "kube/client/access_sources.hpp"
#include "kube/client/kubeconfig.hpp"
#include "kube/manifest.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

namespace drawbridge::kube::client {

namespace asio = boost::asio;
using base::ErrorKind;
using base::Result;

std::string Endpoint::text() const {
    const bool is_ipv6 = host.find(':') != std::string::npos;
    return fmt::format("{}://{}{}{}:{}", tls ? "https" : "http", is_ipv6 ? "[" : "", host,
                       is_ipv6 ? "]" : "", port);
}

namespace {

bool is_port(std::string_view text) {
    if (text.empty() || text.size() > 5) return false;
    int value = 0;
    for (const char c : text) {
        if (c < '0' || c > '9') return false;
        value = value * 10 + (c - '0');
    }
    return value > 0 && value <= 65535;
}

bool is_clean(std::string_view text) {
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte <= 0x20U || byte >= 0x7FU || c == '@' || c == '?' || c == '#') return false;
    }
    return !text.empty();
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`; false where it is none of them.
bool split_authority(std::string_view authority, Endpoint& endpoint) {
    std::string_view rest;
    if (!authority.empty() && authority.front() == '[') {
        const std::size_t end = authority.find(']');
        if (end == std::string_view::npos) return false;
        endpoint.host = authority.substr(1, end - 1);
        rest = authority.substr(end + 1);
    } else {
        const std::size_t colon = authority.find(':');
        endpoint.host = authority.substr(0, colon);
        rest = colon == std::string_view::npos ? "" : authority.substr(colon);
    }
    if (endpoint.host.empty()) return false;
    endpoint.port = endpoint.tls ? "443" : "80";
    if (rest.empty()) return true;
    if (rest.front() != ':' || !is_port(rest.substr(1))) return false;
    endpoint.port = rest.substr(1);
    return true;
}

Result<std::vector<Manifest>> read_kubeconfig(const std::string& path) {
    auto text = read_file(path);
    if (!text) return tl::unexpected(text.error());
    auto manifests = read_manifests(*text);
    if (!manifests) {
        return base::fail(ErrorKind::invalid_input,
                          fmt::format("kubeconfig {}: {}", path, manifests.error().message), path);
    }
    return manifests;
}

/// The files of --kubeconfig, KUBECONFIG or ~/.kube/config that exist; a file asked for by name
/// must.
struct Kubeconfigs {
    std::vector<base::JsonDocument> documents;
    std::vector<KubeconfigFile> files;
};

Result<Kubeconfigs> read_kubeconfigs(const std::vector<std::string>& paths, bool must_exist) {
    Kubeconfigs out;
    for (const std::string& path : paths) {
        auto manifests = read_kubeconfig(path);
        if (!manifests) {
            if (manifests.error().kind == ErrorKind::not_found && !must_exist) continue;
            return tl::unexpected(manifests.error());
        }
        if (manifests->empty()) continue;  // an empty file, as kubectl leaves it
        auto document = base::parse_json(std::move(manifests->front().json));
        if (!document) return tl::unexpected(document.error());
        out.files.push_back({path, document->root()});
        out.documents.push_back(std::move(*document));
    }
    return out;
}

std::vector<std::string> split_paths(std::string_view list) {
    std::vector<std::string> out;
    while (!list.empty()) {
        const std::size_t colon = list.find(':');
        if (colon != 0) out.emplace_back(list.substr(0, colon));
        if (colon == std::string_view::npos) break;
        list.remove_prefix(colon + 1);
    }
    return out;
}

Result<Connection> from_kubeconfigs(asio::any_io_executor executor, const Kubeconfigs& read,
                                    const std::string& context) {
    auto choice = choose_context(read.files, context);
    if (!choice) return tl::unexpected(choice.error());
    auto endpoint = parse_server_url(choice->cluster.server);
    if (!endpoint) return tl::unexpected(endpoint.error());
    endpoint->server_name = choice->cluster.tls_server_name;
    endpoint->skip_verify = choice->cluster.skip_verify;
    Connection connection{
        .endpoint = std::move(*endpoint),
        .access = nullptr,
        .name_space = choice->name_space,
        .described = fmt::format("context {} of {}", choice->context, read.files.front().path),
        .warnings = {}};
    if (connection.endpoint.skip_verify) {
        connection.warnings.push_back(
            "the API server's certificate is not verified "
            "(insecure-skip-tls-verify); anyone in between can read our credentials");
    }
    if (!connection.endpoint.tls) {
        connection.warnings.push_back("the API server is reached over plain HTTP");
    }
    auto access = kubeconfig_access(std::move(executor), std::move(*choice));
    if (!access) return tl::unexpected(access.error());
    connection.access = std::move(*access);
    return connection;
}

Result<Connection> from_service_account(const ConnectionSources& sources) {
    const std::string& folder = sources.service_account;
    auto access = file_access({.token = folder + "/token", .authorities = folder + "/ca.crt"});
    if (!access) return tl::unexpected(access.error());
    Endpoint endpoint{.host = sources.service_host, .port = sources.service_port};
    if (!is_port(endpoint.port)) {
        return base::fail(ErrorKind::invalid_input,
                          fmt::format("KUBERNETES_SERVICE_PORT is \"{}\"; it must be a port number",
                                      endpoint.port));
    }
    const auto name_space = read_file(folder + "/namespace");
    return Connection{.endpoint = std::move(endpoint),
                      .access = std::move(*access),
                      .name_space = name_space ? trimmed(*name_space) : std::string(),
                      .described = fmt::format("service account in {}", folder),
                      .warnings = {}};
}

std::string variable(const char* name) {
    const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
    return value == nullptr ? "" : value;
}

}  // namespace

ConnectionSources ConnectionSources::from_environment() {
    ConnectionSources sources;
    sources.kubeconfig_variable = variable("KUBECONFIG");
    sources.home = variable("HOME");
    sources.service_host = variable("KUBERNETES_SERVICE_HOST");
    sources.service_port = variable("KUBERNETES_SERVICE_PORT");
    return sources;
}

Result<Endpoint> parse_server_url(std::string_view url) {
    const auto refuse = [&] {
        return base::fail(
            ErrorKind::invalid_input,
            fmt::format("\"{}\" is no API server URL; one is https://HOST[:PORT][/PATH]", url));
    };
    Endpoint endpoint;
    std::string_view rest = url;
    if (rest.starts_with("https://")) {
        rest.remove_prefix(8);
    } else if (rest.starts_with("http://")) {
        endpoint.tls = false;
        rest.remove_prefix(7);
    } else if (rest.find("://") != std::string_view::npos) {
        return refuse();
    } else {
        endpoint.tls = false;  // client-go takes a bare host as http
    }
    if (!is_clean(rest)) return refuse();
    const std::size_t slash = rest.find('/');
    if (!split_authority(rest.substr(0, slash), endpoint)) return refuse();
    if (slash != std::string_view::npos) {
        std::string_view path = rest.substr(slash);
        while (!path.empty() && path.back() == '/')
            path.remove_suffix(1);
        endpoint.base_path = path;
    }
    return endpoint;
}

Result<Connection> find_connection(asio::any_io_executor executor,
                                   const ConnectionSources& sources) {
    const bool named = !sources.kubeconfig.empty();
    std::vector<std::string> paths;
    if (named) {
        paths = {sources.kubeconfig};
    } else if (!sources.kubeconfig_variable.empty()) {
        paths = split_paths(sources.kubeconfig_variable);
    } else if (!sources.service_host.empty()) {
        return from_service_account(sources);
    } else if (!sources.home.empty()) {
        paths = {sources.home + "/.kube/config"};
    }
    const auto read = read_kubeconfigs(paths, named);
    if (!read) return tl::unexpected(read.error());
    if (read->files.empty()) {
        return base::fail(
            ErrorKind::not_found,
            "no way to an API server: --kubeconfig is not given, KUBECONFIG names no file that "
            "exists, this is no pod with a service account, and there is no ~/.kube/config");
    }
    return from_kubeconfigs(std::move(executor), *read, sources.context);
}

}  // namespace drawbridge::kube::client
