#pragma once
// AdmissionReview v1 in and out (dra.md 6.1): pure; knows the envelope and nothing of GPUs.

#include "base/json.hpp"
#include "base/result.hpp"
#include "translate/translate.hpp"

#include <string>
#include <string_view>

namespace drawbridge::server {

/// One review as it was asked. The texts are views into the document, which it owns.
struct AdmissionRequest {
    base::JsonDocument document;
    std::string_view uid;
    std::string_view name;        ///< of the pod; empty where the API server is to make one
    std::string_view name_space;  ///< of the request, which counts even if the pod names none
    std::string_view operation;   ///< as sent: CREATE, UPDATE, DELETE, CONNECT
    bool dry_run = false;
    bool concerns_pod = false;  ///< a pod itself, on CREATE or UPDATE; all else is allowed as it is
    base::JsonView pod;
    base::JsonView old_pod;
};

/// Reads the body of a request. An error is the caller's: `invalid_input`, and where in the body.
[[nodiscard]] base::Result<AdmissionRequest> decode_review(std::string body);

/// The answer that allows without a change.
[[nodiscard]] std::string encode_untouched(std::string_view uid);

/// The answer to a pod: allowed with patch and warnings, or denied with a status (design.md,
/// "Details settled").
[[nodiscard]] std::string encode_answer(std::string_view uid,
                                        const translate::Translation& translation);

/// The bounds of what a person is told.
inline constexpr std::size_t warning_limit = 256;       ///< bytes, so never more characters
inline constexpr std::size_t warnings_limit = 4096;     ///< bytes of all together
inline constexpr std::size_t denial_limit = 8U << 10U;  ///< bytes of the message

/// A diagnostic in one line: what was found, where, and what would be right; control characters
/// escaped.
[[nodiscard]] std::string one_line(const translate::Diagnostic& diagnostic);

/// The warnings of a pod, in order, each with its code, within the limits; the last says how many
/// were left out.
[[nodiscard]] std::vector<std::string> warning_lines(const translate::Diagnostics& diagnostics);

/// The message of a denial: one line a problem with its code, as many as fit.
[[nodiscard]] std::string denial_message(const translate::Diagnostics& diagnostics);

}  // namespace drawbridge::server
