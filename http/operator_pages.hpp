#pragma once
// What every operator port of ours answers, and the pages that a process adds to it; no network.

#include "http/answer.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::http {

/// A page by its path, without query.
struct OperatorPage {
    std::string_view path;
    std::function<HttpAnswer()> get;
};

/// Answers GET (and HEAD, as GET) of `pages`, of `/livez` and of `/debug/loglevel`, and PUT of the
/// last with `debug`, `info`, `warn` or `error`.
[[nodiscard]] HttpAnswer answer_pages(const std::vector<OperatorPage>& pages,
                                      std::string_view method, std::string_view target,
                                      std::string_view body);

[[nodiscard]] HttpAnswer text_page(int status, std::string body);
/// `body` is JSON; a line end is added.
[[nodiscard]] HttpAnswer json_page(std::string body);
/// Prometheus text.
[[nodiscard]] HttpAnswer metrics_page(std::string body);
/// `/readyz`: why the process is not ready, one reason each (none: it is), and what else is worth
/// saying, one line each.
[[nodiscard]] HttpAnswer readiness_page(const std::vector<std::string>& reasons,
                                        const std::vector<std::string>& remarks);

}  // namespace drawbridge::http
