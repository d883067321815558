#include "kube/client/api_status.hpp"

#include "base/json.hpp"

#include <fmt/format.h>

#include <string>

namespace drawbridge::kube::client {

using base::ErrorKind;

namespace {

constexpr std::size_t longest_message = 1024;

ErrorKind kind_of(int status) {
    switch (status) {
        case 401:
        case 403:
            return ErrorKind::forbidden;
        case 404:
            return ErrorKind::not_found;
        case 409:
        case 410:
            return ErrorKind::conflict;
        case 400:
        case 405:
        case 413:
        case 415:
        case 422:
            return ErrorKind::invalid_input;
        case 504:
            return ErrorKind::timed_out;
        default:
            return ErrorKind::unavailable;
    }
}

/// Foreign text as one line that can be printed, not too long.
std::string printable(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, longest_message)) {
        const auto byte = static_cast<unsigned char>(c);
        out += byte < 0x20U || byte == 0x7FU ? ' ' : c;
    }
    if (text.size() > longest_message) {
        // do not end inside a UTF-8 sequence
        while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80U)
            out.pop_back();
        if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0U) out.pop_back();
        out += "...";
    }
    return out;
}

std::string message_of(const std::string& body) {
    constexpr std::size_t largest_status = 256U << 10U;
    if (body.size() <= largest_status) {
        const auto document = base::parse_json(body);
        if (document && document->root()["kind"].string_or("") == "Status") {
            return printable(document->root()["message"].string_or(""));
        }
    }
    return printable(std::string_view(body).substr(0, 200));
}

}  // namespace

bool is_success(const ApiAnswer& answer) {
    return answer.status >= 200 && answer.status <= 299;
}

base::Error error_of(const ApiAnswer& answer, std::string_view what) {
    const std::string message = message_of(answer.body);
    return {kind_of(answer.status),
            fmt::format("{}: the API server answered {}{}{}", what, answer.status,
                        message.empty() ? "" : ": ", message),
            {}};
}

}  // namespace drawbridge::kube::client
