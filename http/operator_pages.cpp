#include "http/operator_pages.hpp"

#include "base/log.hpp"

#include <utility>

namespace drawbridge::http {
namespace {

constexpr std::string_view plain = "text/plain; charset=utf-8";
constexpr std::string_view live_path = "/livez";
constexpr std::string_view log_level_path = "/debug/loglevel";

HttpAnswer log_level() {
    return text_page(200, std::string(base::level_name(base::log_level())) + "\n");
}

HttpAnswer set_log_level(std::string_view body) {
    while (!body.empty() && (body.back() == '\n' || body.back() == '\r'))
        body.remove_suffix(1);
    const auto level = base::level_from_name(body);
    if (!level) return failure(400, "a log level is debug, info, warn or error");
    base::set_log_level(*level);
    base::log_event(base::Level::warn, "log_level", {{"level_now", body}});
    return text_page(200, std::string(body) + "\n");
}

HttpAnswer not_served(std::string_view methods) {
    HttpAnswer answer = failure(405, "this method is not served here");
    answer.headers += "Allow: " + std::string(methods) + "\r\n";
    return answer;
}

}  // namespace

HttpAnswer text_page(int status, std::string body) {
    return {.status = status, .body = std::move(body), .content_type = plain, .headers = {}};
}

HttpAnswer json_page(std::string body) {
    return {.status = 200, .body = std::move(body) + "\n", .headers = {}};
}

HttpAnswer metrics_page(std::string body) {
    HttpAnswer answer = text_page(200, std::move(body));
    answer.content_type = "text/plain; version=0.0.4; charset=utf-8";
    return answer;
}

HttpAnswer readiness_page(const std::vector<std::string>& reasons,
                          const std::vector<std::string>& remarks) {
    std::string body = reasons.empty() ? "ok\n" : "";
    for (const std::string& reason : reasons)
        body += "not ready: " + reason + "\n";
    for (const std::string& remark : remarks)
        body += remark + "\n";
    return text_page(reasons.empty() ? 200 : 503, std::move(body));
}

HttpAnswer answer_pages(const std::vector<OperatorPage>& pages, std::string_view method,
                        std::string_view target, std::string_view body) {
    const std::string_view path = target.substr(0, target.find('?'));
    const bool reads = method == "GET" || method == "HEAD";
    if (path == log_level_path) {
        if (reads) return log_level();
        return method == "PUT" ? set_log_level(body) : not_served("GET, HEAD, PUT");
    }
    if (path == live_path) return reads ? text_page(200, "ok\n") : not_served("GET, HEAD");
    for (const OperatorPage& page : pages) {
        if (page.path == path) return reads ? page.get() : not_served("GET, HEAD");
    }
    return failure(404, "there is nothing at this path");
}

}  // namespace drawbridge::http
