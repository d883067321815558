#pragma once
// Kubeconfig files: which server, whom to trust and who we are, as written there. Pure; files they
// name are not read.

#include "base/json.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::kube::client {

/// Something that a kubeconfig holds either inline or in a file.
struct InlineOrFile {
    std::string data;  ///< decoded; wins over the file, as in client-go
    std::string file;  ///< absolute, or relative to the working directory where the kubeconfig's
                       ///< own path is

    [[nodiscard]] bool empty() const { return data.empty() && file.empty(); }
};

/// A command that prints an ExecCredential (client.authentication.k8s.io).
struct ExecPlugin {
    std::string api_version;
    std::string command;
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> environment;
    std::string install_hint;
    bool provide_cluster_info = false;
    std::string cluster_config;  ///< JSON of the cluster's extension for exec plugins; empty: none
};

struct ClusterEntry {
    std::string server;
    InlineOrFile authorities;
    std::string tls_server_name;
    bool skip_verify = false;
};

struct UserEntry {
    InlineOrFile certificate;
    InlineOrFile key;
    std::string token;  ///< loses against token_file, as in client-go
    std::string token_file;
    std::optional<ExecPlugin> exec;
};

/// The context in use and what it points to.
struct KubeconfigChoice {
    std::string context;
    std::string name_space;  ///< empty: not given
    ClusterEntry cluster;
    UserEntry user;
};

/// One kubeconfig file, read as JSON (see kube/manifest.hpp).
struct KubeconfigFile {
    std::string path;
    base::JsonView root;
};

/// Chooses `context`, or the current-context, from the files in order: of entries with one name,
/// and of current-context, the first counts (client-go's rule for KUBECONFIG with several files).
/// Relative paths are taken from the folder of the file they stand in. Errors name file, field and
/// what would be right; what we do not do (proxy-url, auth-provider, basic authentication,
/// impersonation) is refused by name.
[[nodiscard]] base::Result<KubeconfigChoice> choose_context(
    const std::vector<KubeconfigFile>& files, std::string_view context);

}  // namespace drawbridge::kube::client
