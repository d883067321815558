#pragma once
// What is answered to a request, as the bytes of an HTTP/1.1 answer, and how failures become one.

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace drawbridge::http {

/// One answer. `headers` are whole extra lines, each with its line end.
struct HttpAnswer {
    int status = 200;
    std::string body;
    std::string_view content_type = "application/json";
    std::string headers;
};

/// Appends the answer as it goes over the wire; `close` announces that the connection ends with it.
/// `with_body` is false for the answer to HEAD.
void append_http(std::string& out, const HttpAnswer& answer, bool close, bool with_body = true);

/// A failure of the HTTP kind: the status with a Kubernetes `Status` object that says why.
[[nodiscard]] HttpAnswer failure(int status, std::string_view message);

/// The one place where an error of ours becomes an HTTP status. `doing` says what failed.
[[nodiscard]] HttpAnswer failure(const base::Error& error, std::string_view doing);

}  // namespace drawbridge::http
