#pragma once
// What an API server's answer means for the caller.

#include "base/result.hpp"
#include "kube/client/api_transport.hpp"

#include <string_view>

namespace drawbridge::kube::client {

/// Whether the status is one of success.
[[nodiscard]] bool is_success(const ApiAnswer& answer);

/// The error of an answer that is no success: the message of its Status, or the start of the body
/// in printable form; 401 and 403 are `forbidden`, 404 `not_found`, 409 and 410 `conflict`, 400 and
/// 422 `invalid_input`, 504 `timed_out`, 429 and the rest of 5xx `unavailable`. `what` names the
/// call ("POST /apis/...").
[[nodiscard]] base::Error error_of(const ApiAnswer& answer, std::string_view what);

}  // namespace drawbridge::kube::client
