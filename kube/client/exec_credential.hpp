#pragma once
// The exchange with an exec plugin (client.authentication.k8s.io): what it is told and what it
// prints. Pure.

#include "base/result.hpp"
#include "kube/client/kubeconfig.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace drawbridge::kube::client {

/// What a plugin has handed out.
struct ExecCredential {
    std::string token;
    std::string certificate;
    std::string key;
    std::optional<std::chrono::system_clock::time_point>
        expires;  ///< none: until the server refuses it
};

/// The value of KUBERNETES_EXEC_INFO; `authorities` is the PEM text of the cluster's certificate
/// authority.
[[nodiscard]] std::string exec_info(const ExecPlugin& plugin, const ClusterEntry& cluster,
                                    std::string_view authorities);

/// Reads the standard output of a plugin. An error never shows the output: it may hold a secret.
[[nodiscard]] base::Result<ExecCredential> read_exec_credential(const ExecPlugin& plugin,
                                                                std::string output);

/// An instant as Kubernetes writes it (RFC 3339, any offset, fraction dropped).
[[nodiscard]] std::optional<std::chrono::system_clock::time_point> parse_instant(
    std::string_view text);

}  // namespace drawbridge::kube::client
