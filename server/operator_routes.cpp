#include "server/operator_routes.hpp"

#include "http/operator_pages.hpp"

#include <utility>

namespace drawbridge::server {
namespace {

HttpAnswer settings(const OperatorParts& parts) {
    std::string body = parts.settings();
    if (body.empty()) return failure(503, "no valid settings were read yet");
    return http::json_page(std::move(body));
}

HttpAnswer templates(const OperatorParts& parts) {
    auto body = parts.templates();
    if (!body) return failure(404, "the templates are in the cluster, not in this process");
    return http::json_page(std::move(*body));
}

}  // namespace

HttpAnswer answer_operator(const OperatorParts& parts, std::string_view method,
                           std::string_view target, std::string_view body) {
    const std::vector<http::OperatorPage> pages = {
        {"/readyz", [&] { return http::readiness_page(parts.not_ready(), parts.remarks()); }},
        {"/metrics", [&] { return http::metrics_page(parts.metrics()); }},
        {"/debug/inflight", [&] { return http::json_page(parts.inflight()); }},
        {"/debug/settings", [&] { return settings(parts); }},
        {"/debug/templates", [&] { return templates(parts); }}};
    return http::answer_pages(pages, method, target, body);
}

}  // namespace drawbridge::server
