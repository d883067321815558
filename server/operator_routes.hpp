#pragma once
// What the operator port answers; no network.

#include "server/http_answer.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::server {

/// Where the answers come from. Each may be called from the operator port's thread.
struct OperatorParts {
    /// Why the process is not ready, one reason each; empty: ready.
    std::function<std::vector<std::string>()> not_ready;
    /// What is worth saying beside that, one line each.
    std::function<std::vector<std::string>()> remarks;
    std::function<std::string()> metrics;   ///< Prometheus text
    std::function<std::string()> inflight;  ///< JSON
    std::function<std::string()> settings;  ///< JSON; empty where none are in effect
    /// JSON; nullopt where the templates are kept elsewhere.
    std::function<std::optional<std::string>()> templates;
};

/// Answers GET (and HEAD, as GET) of `/livez`, `/readyz`, `/metrics`, `/debug/inflight`,
/// `/debug/settings`, `/debug/templates`, `/debug/loglevel`, and PUT of the last with `debug`,
/// `info`, `warn` or `error`.
[[nodiscard]] HttpAnswer answer_operator(const OperatorParts& parts, std::string_view method,
                                         std::string_view target, std::string_view body);

}  // namespace drawbridge::server
