#pragma once
// The one log line of a review. User text is only ever a value.

#include "server/admission_review.hpp"
#include "server/http_answer.hpp"

#include <chrono>
#include <string_view>

namespace drawbridge::server {

/// A pod that was answered; at level debug also each diagnostic, a line each.
void log_review(const AdmissionRequest& review, const translate::Translation& translation,
                std::chrono::nanoseconds took);
/// A review that concerns no pod.
void log_untouched(const AdmissionRequest& review, std::chrono::nanoseconds took);
/// A review without an answer; `why` from `review_failures`.
void log_failure(std::string_view why, const HttpAnswer& answer, std::chrono::nanoseconds took);

}  // namespace drawbridge::server
