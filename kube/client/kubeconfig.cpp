#include "kube/client/kubeconfig.hpp"

#include "base/hash.hpp"

#include <fmt/format.h>

namespace drawbridge::kube::client {

using base::ErrorKind;
using base::JsonView;
using base::Result;

namespace {

/// An entry of `clusters`, `users` or `contexts`, with where it stands.
struct Entry {
    const KubeconfigFile* file = nullptr;
    JsonView body;
    std::string pointer;
};

/// Reads the fields of one entry. The first fault is kept; reading goes on with empty values.
class Fields {
public:
    explicit Fields(const Entry& entry) : entry_(entry) {}

    std::string text(std::string_view key) {
        const JsonView value = entry_.body[key];
        if (value.is_absent()) return {};
        if (const auto text = value.as_string()) return std::string(*text);
        refuse(key, "must be a string");
        return {};
    }

    bool flag(std::string_view key) {
        const JsonView value = entry_.body[key];
        if (value.is_absent()) return false;
        if (const auto flag = value.as_bool()) return *flag;
        refuse(key, "must be true or false");
        return false;
    }

    std::string path(std::string_view key) { return resolve(text(key)); }

    InlineOrFile inline_or_file(std::string_view key) {
        InlineOrFile out{.data = {}, .file = path(key)};
        const std::string data_key = fmt::format("{}-data", key);
        std::string encoded = text(data_key);
        std::erase_if(encoded, [](char c) { return c == '\n' || c == '\r'; });  // as client-go does
        if (encoded.empty()) return out;
        if (auto decoded = base::base64_decode(encoded); decoded && !decoded->empty()) {
            out.data = std::move(*decoded);
        } else {
            refuse(data_key, "must be base64 of PEM text");
        }
        return out;
    }

    /// A relative path as seen from the kubeconfig's folder.
    [[nodiscard]] std::string resolve(std::string path) const {
        const std::size_t slash = entry_.file->path.rfind('/');
        if (path.empty() || path.front() == '/' || slash == std::string::npos) return path;
        return entry_.file->path.substr(0, slash + 1) + path;
    }

    void refuse(std::string_view key, std::string_view why) {
        if (fault_) return;
        fault_ = base::Error{
            ErrorKind::invalid_input,
            fmt::format("kubeconfig {}: {}/{} {}", entry_.file->path, entry_.pointer, key, why),
            entry_.file->path};
    }

    [[nodiscard]] const std::optional<base::Error>& fault() const { return fault_; }

private:
    const Entry& entry_;
    std::optional<base::Error> fault_;
};

std::string paths_of(const std::vector<KubeconfigFile>& files) {
    std::string out;
    for (const KubeconfigFile& file : files) {
        if (!out.empty()) out += ", ";
        out += file.path;
    }
    return out;
}

/// The entry called `name` of the list `list` (`clusters`, ...), whose body is the member `member`.
Result<Entry> find_entry(const std::vector<KubeconfigFile>& files, std::string_view list,
                         std::string_view member, const std::string& name) {
    for (const KubeconfigFile& file : files) {
        const JsonView entries = file.root[list];
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (entries.at(i)["name"].as_string() != name) continue;
            Entry entry{&file, entries.at(i)[member], fmt::format("/{}/{}/{}", list, i, member)};
            if (entry.body.is_object() || entry.body.is_absent()) return entry;
            return base::fail(
                ErrorKind::invalid_input,
                fmt::format("kubeconfig {}: {} must be an object", file.path, entry.pointer),
                file.path);
        }
    }
    return base::fail(
        ErrorKind::invalid_input,
        fmt::format("kubeconfig {}: no entry of /{} is named \"{}\"", paths_of(files), list, name),
        files.front().path);
}

Result<std::string> current_context(const std::vector<KubeconfigFile>& files) {
    for (const KubeconfigFile& file : files) {
        const std::string_view name = file.root["current-context"].string_or("");
        if (!name.empty()) return std::string(name);
    }
    return base::fail(
        ErrorKind::invalid_input,
        fmt::format("kubeconfig {}: /current-context is not set; set it with `kubectl "
                    "config use-context NAME`",
                    paths_of(files)),
        files.front().path);
}

std::string exec_extension(JsonView cluster) {
    const JsonView extensions = cluster["extensions"];
    for (std::size_t i = 0; i < extensions.size(); ++i) {
        if (extensions.at(i)["name"].as_string() == "client.authentication.k8s.io/exec") {
            return extensions.at(i)["extension"].to_json();
        }
    }
    return {};
}

Result<ClusterEntry> read_cluster(const Entry& entry) {
    Fields fields(entry);
    ClusterEntry cluster{.server = fields.text("server"),
                         .authorities = fields.inline_or_file("certificate-authority"),
                         .tls_server_name = fields.text("tls-server-name"),
                         .skip_verify = fields.flag("insecure-skip-tls-verify")};
    if (cluster.server.empty()) fields.refuse("server", "is missing; it is the API server's URL");
    if (!fields.text("proxy-url").empty()) {
        fields.refuse("proxy-url", "is not supported; the API server must be reachable directly");
    }
    if (cluster.skip_verify && !cluster.authorities.empty()) {
        fields.refuse("insecure-skip-tls-verify",
                      "is true although a certificate authority is given; keep one of the two");
    }
    if (fields.fault()) return tl::unexpected(*fields.fault());
    return cluster;
}

void read_arguments(Fields& fields, JsonView exec, ExecPlugin& plugin) {
    const JsonView arguments = exec["args"];
    if (!arguments.is_absent() && !arguments.is_array()) {
        fields.refuse("args", "must be a list of strings");
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const auto text = arguments.at(i).as_string();
        if (!text) fields.refuse(fmt::format("args/{}", i), "must be a string; quote it");
        plugin.arguments.emplace_back(text.value_or(""));
    }
    const JsonView variables = exec["env"];
    if (!variables.is_absent() && !variables.is_array()) {
        fields.refuse("env", "must be a list of name and value");
    }
    for (std::size_t i = 0; i < variables.size(); ++i) {
        const std::string_view name = variables.at(i)["name"].string_or("");
        const auto value = variables.at(i)["value"].as_string();
        if (name.empty() || name.find('=') != std::string_view::npos || !value) {
            fields.refuse(fmt::format("env/{}", i), "must have a name and a value, both strings");
        }
        plugin.environment.emplace_back(name, value.value_or(""));
    }
}

Result<ExecPlugin> read_exec(const Entry& entry) {
    Fields fields(entry);
    ExecPlugin plugin{.api_version = fields.text("apiVersion"),
                      .command = fields.text("command"),
                      .arguments = {},
                      .environment = {},
                      .install_hint = fields.text("installHint"),
                      .provide_cluster_info = fields.flag("provideClusterInfo"),
                      .cluster_config = {}};
    if (plugin.api_version != "client.authentication.k8s.io/v1" &&
        plugin.api_version != "client.authentication.k8s.io/v1beta1") {
        fields.refuse("apiVersion",
                      fmt::format("is \"{}\"; client.authentication.k8s.io/v1 and /v1beta1 are "
                                  "supported (v1alpha1 was removed from Kubernetes)",
                                  plugin.api_version));
    }
    if (plugin.command.empty()) fields.refuse("command", "is missing");
    // A bare name is looked up in PATH, anything with a slash is a path (client-go).
    if (plugin.command.find('/') != std::string::npos)
        plugin.command = fields.resolve(plugin.command);
    if (fields.text("interactiveMode") == "Always") {
        fields.refuse("interactiveMode", "is Always; a server has no terminal for the plugin");
    }
    read_arguments(fields, entry.body, plugin);
    if (fields.fault()) return tl::unexpected(*fields.fault());
    return plugin;
}

Result<UserEntry> read_user(const Entry& entry) {
    Fields fields(entry);
    UserEntry user{.certificate = fields.inline_or_file("client-certificate"),
                   .key = fields.inline_or_file("client-key"),
                   .token = fields.text("token"),
                   .token_file = fields.path("tokenFile"),
                   .exec = std::nullopt};
    if (user.certificate.empty() != user.key.empty()) {
        fields.refuse(user.key.empty() ? "client-key" : "client-certificate",
                      "is missing; a client certificate and its key go together");
    }
    for (const std::string_view key : {"auth-provider", "username", "password"}) {
        if (!entry.body[key].is_absent()) {
            fields.refuse(key, "was removed from Kubernetes; use exec, a token or a certificate");
        }
    }
    for (const std::string_view key : {"as", "as-uid", "as-groups", "as-user-extra"}) {
        if (!entry.body[key].is_absent()) fields.refuse(key, "is not supported (impersonation)");
    }
    if (fields.fault()) return tl::unexpected(*fields.fault());
    if (!entry.body["exec"].is_absent()) {
        auto exec = read_exec({entry.file, entry.body["exec"], entry.pointer + "/exec"});
        if (!exec) return tl::unexpected(exec.error());
        user.exec = std::move(*exec);
    }
    return user;
}

}  // namespace

Result<KubeconfigChoice> choose_context(const std::vector<KubeconfigFile>& files,
                                        std::string_view context) {
    if (files.empty()) return base::fail(ErrorKind::invalid_input, "no kubeconfig file was found");
    std::string name(context);
    if (name.empty()) {
        auto current = current_context(files);
        if (!current) return tl::unexpected(current.error());
        name = std::move(*current);
    }
    const auto chosen = find_entry(files, "contexts", "context", name);
    if (!chosen) return tl::unexpected(chosen.error());
    Fields fields(*chosen);
    const std::string cluster_name = fields.text("cluster");
    const std::string user_name = fields.text("user");
    const std::string name_space = fields.text("namespace");
    if (cluster_name.empty()) fields.refuse("cluster", "is missing");
    if (fields.fault()) return tl::unexpected(*fields.fault());

    const auto cluster_entry = find_entry(files, "clusters", "cluster", cluster_name);
    if (!cluster_entry) return tl::unexpected(cluster_entry.error());
    auto cluster = read_cluster(*cluster_entry);
    if (!cluster) return tl::unexpected(cluster.error());
    UserEntry user;  // a context without a user is anonymous, as with `kubectl proxy`
    if (!user_name.empty()) {
        const auto user_entry = find_entry(files, "users", "user", user_name);
        if (!user_entry) return tl::unexpected(user_entry.error());
        auto read = read_user(*user_entry);
        if (!read) return tl::unexpected(read.error());
        user = std::move(*read);
    }
    if (user.exec) user.exec->cluster_config = exec_extension(cluster_entry->body);
    return KubeconfigChoice{std::move(name), name_space, std::move(*cluster), std::move(user)};
}

}  // namespace drawbridge::kube::client
