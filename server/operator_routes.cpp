#include "server/operator_routes.hpp"

#include "base/log.hpp"

#include <utility>

namespace drawbridge::server {
namespace {

constexpr std::string_view plain = "text/plain; charset=utf-8";

HttpAnswer text(int status, std::string body) {
    return {.status = status, .body = std::move(body), .content_type = plain, .headers = {}};
}

HttpAnswer json(std::string body) {
    return {.status = 200, .body = std::move(body) + "\n", .headers = {}};
}

HttpAnswer readiness(const OperatorParts& parts) {
    const auto reasons = parts.not_ready();
    std::string body = reasons.empty() ? "ok\n" : "";
    for (const std::string& reason : reasons)
        body += "not ready: " + reason + "\n";
    for (const std::string& remark : parts.remarks())
        body += remark + "\n";
    return text(reasons.empty() ? 200 : 503, std::move(body));
}

HttpAnswer prometheus(const OperatorParts& parts) {
    HttpAnswer answer = text(200, parts.metrics());
    answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return answer;
}

HttpAnswer settings(const OperatorParts& parts) {
    std::string body = parts.settings();
    if (body.empty()) return failure(503, "no valid settings were read yet");
    return json(std::move(body));
}

HttpAnswer templates(const OperatorParts& parts) {
    auto body = parts.templates();
    if (!body) return failure(404, "the templates are in the cluster, not in this process");
    return json(std::move(*body));
}

HttpAnswer log_level(const OperatorParts&) {
    return text(200, std::string(base::level_name(base::log_level())) + "\n");
}

HttpAnswer set_log_level(std::string_view body) {
    while (!body.empty() && (body.back() == '\n' || body.back() == '\r'))
        body.remove_suffix(1);
    const auto level = base::level_from_name(body);
    if (!level) return failure(400, "a log level is debug, info, warn or error");
    base::set_log_level(*level);
    base::log_event(base::Level::warn, "log_level", {{"level_now", body}});
    return text(200, std::string(body) + "\n");
}

using Get = HttpAnswer (*)(const OperatorParts&);

constexpr std::string_view log_level_path = "/debug/loglevel";

constexpr std::pair<std::string_view, Get> pages[] = {
    {"/livez", [](const OperatorParts&) { return text(200, "ok\n"); }},
    {"/readyz", readiness},
    {"/metrics", prometheus},
    {"/debug/inflight", [](const OperatorParts& parts) { return json(parts.inflight()); }},
    {"/debug/settings", settings},
    {"/debug/templates", templates},
    {log_level_path, log_level}};

}  // namespace

HttpAnswer answer_operator(const OperatorParts& parts, std::string_view method,
                           std::string_view target, std::string_view body) {
    const std::string_view path = target.substr(0, target.find('?'));
    for (const auto& [page, get] : pages) {
        if (page != path) continue;
        if (method == "GET" || method == "HEAD") return get(parts);
        const bool settable = path == log_level_path;
        if (settable && method == "PUT") return set_log_level(body);
        HttpAnswer answer = failure(405, "this method is not served here");
        answer.headers += settable ? "Allow: GET, HEAD, PUT\r\n" : "Allow: GET, HEAD\r\n";
        return answer;
    }
    return failure(404, "there is nothing at this path");
}

}  // namespace drawbridge::server
