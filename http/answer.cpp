#include "http/answer.hpp"

#include "base/json.hpp"

#include <fmt/format.h>

#include <iterator>

namespace drawbridge::http {
namespace {

/// What an answer of ours can be: its phrase in HTTP and its reason in Kubernetes' `Status`.
struct StatusText {
    int code;
    std::string_view phrase;
    std::string_view reason;
};

constexpr StatusText texts[] = {
    {200, "OK", ""},
    {400, "Bad Request", "BadRequest"},
    {404, "Not Found", "NotFound"},
    {405, "Method Not Allowed", "MethodNotAllowed"},
    {408, "Request Timeout", "Timeout"},
    {413, "Content Too Large", "RequestEntityTooLarge"},
    {415, "Unsupported Media Type", "UnsupportedMediaType"},
    {417, "Expectation Failed", "BadRequest"},
    {431, "Request Header Fields Too Large", "BadRequest"},
    {500, "Internal Server Error", "InternalError"},
    {503, "Service Unavailable", "ServiceUnavailable"},
    {504, "Gateway Timeout", "Timeout"},
};

const StatusText& text_of(int status) {
    for (const StatusText& text : texts) {
        if (text.code == status) return text;
    }
    return text_of(500);
}

int status_of(base::ErrorKind kind) {
    switch (kind) {
        case base::ErrorKind::invalid_input:
            return 400;
        case base::ErrorKind::unavailable:
            return 503;
        case base::ErrorKind::timed_out:
            return 504;
        case base::ErrorKind::not_found:
        case base::ErrorKind::conflict:
        case base::ErrorKind::forbidden:
        case base::ErrorKind::internal:
            return 500;
    }
    return 500;
}

}  // namespace

void append_http(std::string& out, const HttpAnswer& answer, bool close, bool with_body) {
    out.reserve(out.size() + answer.body.size() + answer.headers.size() + 160);
    fmt::format_to(std::back_inserter(out),
                   "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n",
                   answer.status, text_of(answer.status).phrase, answer.content_type,
                   answer.body.size(), answer.headers, close ? "Connection: close\r\n" : "");
    if (with_body) out += answer.body;
}

HttpAnswer failure(int status, std::string_view message) {
    base::JsonWriter json;
    json.begin_object().member("kind", "Status").member("apiVersion", "v1");
    json.key("metadata").begin_object().end_object().member("status", "Failure");
    json.member("message", message).member("reason", text_of(status).reason);
    json.key("code").integer(status).end_object();
    HttpAnswer answer{.status = status, .body = json.take() + "\n", .headers = {}};
    if (status == 503) answer.headers = "Retry-After: 1\r\n";
    return answer;
}

HttpAnswer failure(const base::Error& error, std::string_view doing) {
    const std::string place = error.path.empty() ? "" : error.path + ": ";
    return failure(status_of(error.kind), fmt::format("{}: {}{}", doing, place, error.message));
}

}  // namespace drawbridge::http
