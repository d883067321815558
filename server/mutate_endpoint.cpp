#include "server/mutate_endpoint.hpp"

#include "base/log.hpp"
#include "server/review_log.hpp"

#include <algorithm>
#include <exception>

namespace drawbridge::server {
namespace {

using translate::Translation;
using translate::Verdict;
using Time = std::chrono::steady_clock::time_point;

Time now() {
    return std::chrono::steady_clock::now();
}

/// Turns a translation into a denial; nothing of it is carried out.
void deny(Translation& translation, translate::Diagnostic diagnostic) {
    translation.verdict = Verdict::deny;
    translation.patch = {};
    translation.templates.clear();
    translation.diagnostics.insert(translation.diagnostics.begin(), std::move(diagnostic));
}

ReviewFailure kind_of(const base::Error& error) {
    return error.kind == base::ErrorKind::timed_out ? ReviewFailure::store_timed_out
                                                    : ReviewFailure::store_failed;
}

/// Counts a review as in flight while it lives.
class InFlightCount {
public:
    explicit InFlightCount(Gauge& gauge) : gauge_(gauge), count_(++gauge) {}
    InFlightCount(const InFlightCount&) = delete;
    InFlightCount& operator=(const InFlightCount&) = delete;
    ~InFlightCount() { --gauge_; }
    /// How many there were with this one.
    [[nodiscard]] std::int64_t count() const { return count_; }

private:
    Gauge& gauge_;
    std::int64_t count_;
};

}  // namespace

HttpAnswer MutateEndpoint::refuse(Failure failure, Time began) {
    parts_.metrics.count_failure(failure.what);
    log_failure(review_failures[static_cast<std::size_t>(failure.what)], failure.answer,
                now() - began);
    return std::move(failure.answer);
}

boost::asio::awaitable<HttpAnswer> MutateEndpoint::handle(std::string body, Time deadline) {
    const Time began = now();
    try {
        co_return co_await answer(std::move(body), began, deadline);
    } catch (const std::exception& error) {
        base::log_event(base::Level::error, "review", {{"reason", error.what()}});
        co_return refuse({ReviewFailure::internal, failure(500, "an internal error")}, began);
    }
}

boost::asio::awaitable<HttpAnswer> MutateEndpoint::answer(std::string body, Time began,
                                                          Time deadline) {
    const InFlightCount in_flight(parts_.metrics.reviews_in_flight);
    if (in_flight.count() > parts_.max_in_flight) {
        co_return refuse({ReviewFailure::overloaded, failure(503, "too many reviews at once")},
                         began);
    }
    auto review = decode_review(std::move(body));
    if (!review) {
        co_return refuse(
            {ReviewFailure::undecodable, failure(review.error(), "the body is no AdmissionReview")},
            began);
    }
    HttpAnswer reply;
    if (!review->concerns_pod) {
        reply.body = encode_untouched(review->uid);
        parts_.metrics.count_untouched();
        log_untouched(*review, now() - began);
    } else {
        const Inflight::Entry entry(parts_.inflight, review->uid, review->name_space, began);
        auto translation = co_await decide(*review, deadline);
        if (!translation) co_return refuse(std::move(translation.error()), began);
        reply.body = encode_answer(review->uid, *translation);
        parts_.metrics.count_review(*translation);
        log_review(*review, *translation, now() - began);
    }
    parts_.metrics.review_duration.observe(now() - began);
    co_return reply;
}

MutateEndpoint::Outcome<Translation> MutateEndpoint::translate(
    const AdmissionRequest& review) const {
    const auto settings = parts_.settings.current();
    if (!settings) {
        return tl::unexpected(
            Failure{ReviewFailure::not_ready, failure(503, "no valid settings were read yet")});
    }
    const auto cluster = parts_.cluster.current();
    translate::PodReview pod;
    pod.pod = review.pod;
    pod.old_pod = review.old_pod;
    pod.name_space = review.name_space;
    pod.operation =
        review.operation == "UPDATE" ? translate::Operation::update : translate::Operation::create;
    Translation translation = translate_pod(pod, *settings, *cluster);
    if (translation.sizes_needed) {
        return tl::unexpected(Failure{
            ReviewFailure::sizes_not_listed,
            failure(503,
                    "a percentage needs the memory sizes of the fleet, which the API server "
                    "has not listed yet")});
    }
    return translation;
}

boost::asio::awaitable<MutateEndpoint::Outcome<Translation>> MutateEndpoint::decide(
    const AdmissionRequest& review, Time deadline) {
    // Asked before the cluster's snapshot is read: a first answer that comes in between counts as
    // none.
    const auto gaps = parts_.cluster_gaps ? parts_.cluster_gaps() : std::vector<std::string>();
    auto translation = translate(review);
    if (!translation || translation->verdict == Verdict::deny) co_return translation;
    const bool needs_cluster =
        translation->verdict == Verdict::translate || !translation->referenced_templates.empty();
    if (needs_cluster && !gaps.empty()) {
        co_return tl::unexpected(
            Failure{ReviewFailure::not_ready, failure(503, "not ready: " + gaps.front())});
    }
    const StoreCall call{std::string(review.name_space), review.dry_run, deadline};
    const auto provided = co_await provide_templates(call, *translation);
    if (!provided) {
        co_return tl::unexpected(
            Failure{kind_of(provided.error()),
                    failure(provided.error(), "the claim templates of the pod")});
    }
    co_return translation;
}

boost::asio::awaitable<base::Result<void>> MutateEndpoint::provide_templates(
    StoreCall call, Translation& translation) {
    auto done = co_await check_referenced(call, translation);
    if (done && translation.verdict != Verdict::deny && !translation.templates.empty()) {
        done = co_await parts_.store.ensure(call, translation.templates);
    }
    if (!done && done.error().kind == base::ErrorKind::conflict) {
        deny(translation, translate::conflicting_template(done.error().path));
        co_return base::Result<void>{};
    }
    co_return done;
}

boost::asio::awaitable<base::Result<void>> MutateEndpoint::check_referenced(
    const StoreCall& call, Translation& translation) {
    // A copy: a denial below must not pull the list away.
    const std::vector<std::string> names = translation.referenced_templates;
    for (const std::string& name : names) {
        const auto there = co_await parts_.store.exists(call, name);
        if (!there) co_return tl::unexpected(there.error());
        if (*there) continue;
        const auto lost =
            std::ranges::find(translation.restorable, name, &kube::ClaimTemplate::name);
        if (lost == translation.restorable.end()) {
            deny(translation, translate::missing_template(name));
            continue;
        }
        const std::vector<kube::ClaimTemplate> restored{*lost};
        auto done = co_await parts_.store.ensure(call, restored);
        if (!done) co_return done;
    }
    co_return base::Result<void>{};
}

}  // namespace drawbridge::server
