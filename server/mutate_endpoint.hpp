#pragma once
// One review from the body of its request to the answer: decode, translate, store, encode.

#include "server/admission_review.hpp"
#include "server/cluster_holder.hpp"
#include "server/http_answer.hpp"
#include "server/inflight.hpp"
#include "server/metrics.hpp"
#include "server/settings_holder.hpp"
#include "server/template_store.hpp"

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::server {

/// What reviews are answered from; all of it outlives the endpoint.
struct ReviewParts {
    const SettingsHolder& settings;
    const ClusterHolder& cluster;
    TemplateStore& store;
    Metrics& metrics;
    Inflight& inflight;
    /// Why the cluster cannot be told yet; an empty function: it always can.
    std::function<std::vector<std::string>()> cluster_gaps;
    std::int64_t max_in_flight = 256;
};

/// Safe to call from several threads.
class MutateEndpoint {
public:
    explicit MutateEndpoint(ReviewParts parts) : parts_(std::move(parts)) {}

    using Time = std::chrono::steady_clock::time_point;

    /// Answers one review; calls of our own end by `deadline`. Only a 200 holds an AdmissionReview:
    /// with any other status the failurePolicy decides.
    [[nodiscard]] boost::asio::awaitable<HttpAnswer> handle(std::string body, Time deadline);

private:
    /// Why there is no answer to a review.
    struct Failure {
        ReviewFailure what;
        HttpAnswer answer;
    };
    template <class T>
    using Outcome = tl::expected<T, Failure>;

    [[nodiscard]] boost::asio::awaitable<HttpAnswer> answer(std::string body, Time began,
                                                            Time deadline);
    [[nodiscard]] boost::asio::awaitable<Outcome<translate::Translation>> decide(
        const AdmissionRequest& review, Time deadline);
    [[nodiscard]] Outcome<translate::Translation> translate(const AdmissionRequest& review) const;
    [[nodiscard]] boost::asio::awaitable<base::Result<void>> provide_templates(
        StoreCall call, translate::Translation& translation);
    [[nodiscard]] boost::asio::awaitable<base::Result<void>> check_referenced(
        const StoreCall& call, translate::Translation& translation);
    [[nodiscard]] HttpAnswer refuse(Failure failure, Time began);

    ReviewParts parts_;
};

}  // namespace drawbridge::server
