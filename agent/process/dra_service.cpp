#include "agent/process/dra_service.hpp"

#include "agent/rpc/messages.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>

#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
using base::ErrorKind;
using base::Result;
using rpc::RpcAnswer;
using rpc::RpcCall;
using rpc::RpcCode;
using Steady = std::chrono::steady_clock;

/// The claims of one call; the last one to end answers it. A failure of one is its own.
template <class Results>
class Batch {
public:
    using Encode = std::string (*)(const Results&);

    Batch(std::shared_ptr<RpcCall> call, std::size_t claims, Encode encode)
        : call_(std::move(call)), open_(claims), encode_(encode) {
        if (claims == 0) call_->finish({RpcCode::ok, encode_(results_)});
    }

    void end(const std::string& uid, typename Results::mapped_type result) {
        const std::lock_guard lock(mutex_);
        results_.insert_or_assign(uid, std::move(result));
        if (--open_ == 0) call_->finish({RpcCode::ok, encode_(results_)});
    }
    [[nodiscard]] bool is_cancelled() const { return call_->is_cancelled(); }

private:
    std::mutex mutex_;
    std::shared_ptr<RpcCall> call_;
    std::size_t open_;
    Encode encode_;
    Results results_;
};

using PrepareBatch = Batch<rpc::PrepareResults>;
using UnprepareBatch = Batch<rpc::UnprepareResults>;

Result<void> outcome(const Result<std::vector<PreparedShare>>& result) {
    if (!result) return tl::unexpected(result.error());
    return {};
}

/// Nobody waits for the answer any more: what is not begun is left to the call that comes next.
tl::unexpected<base::Error> given_up() {
    return base::fail(ErrorKind::timed_out, "the kubelet no longer waits");
}

/// Of a prepare: when it came, and when the API server had answered.
struct Times {
    Steady::time_point began;
    Steady::time_point answered;
};

void prepare_on_disk(const DraParts& parts, const std::shared_ptr<PrepareBatch>& batch,
                     const ClaimName& claim, const ClaimLookup& lookup, const Times& times) {
    Result<std::vector<PreparedShare>> result = given_up();
    const std::string refusal = parts.refusal();
    if (!refusal.empty()) {
        result = base::fail(ErrorKind::unavailable, refusal);
    } else if (!batch->is_cancelled()) {
        result = parts.flow.prepare(claim, lookup);
    }
    ClaimWork work{.claim = claim,
                   .done = outcome(result),
                   .took = Steady::now() - times.began,
                   .asked = times.answered - times.began};
    if (result) work.shares = *result;
    if (lookup.facts) {
        work.warnings = lookup.facts->warnings;
        work.consumers = lookup.facts->consumers;
    }
    parts.ended(work);
    batch->end(claim.uid, std::move(result));
}

asio::awaitable<void> prepare_one(DraParts parts, std::shared_ptr<PrepareBatch> batch,
                                  ClaimName claim) {
    const auto began = Steady::now();
    const std::int64_t asked = parts.flow.now_asking();
    auto facts = co_await parts.api.claim(claim);  // g++ 12 spoils it inside the braces below
    ClaimLookup lookup{std::move(facts), asked};
    const Times times{began, Steady::now()};
    auto work = [parts, batch = std::move(batch), claim = std::move(claim),
                 lookup = std::move(lookup),
                 times] { prepare_on_disk(parts, batch, claim, lookup, times); };
    asio::post(parts.pool, std::move(work));
}

void prepare(const DraParts& parts, const std::string& request,
             const std::shared_ptr<RpcCall>& call) {
    const auto claims = rpc::decode_claims(request);
    if (!claims) return call->finish({RpcCode::invalid_argument, claims.error().message});
    const auto batch = std::make_shared<PrepareBatch>(call, claims->size(), &rpc::encode_prepared);
    for (const ClaimName& claim : *claims) {
        auto failed = [batch, uid = claim.uid](const std::exception_ptr& failure) {
            if (failure) batch->end(uid, base::fail(ErrorKind::internal, "a failure of our own"));
        };
        asio::co_spawn(parts.strand, prepare_one(parts, batch, claim), std::move(failed));
    }
}

void unprepare(const DraParts& parts, const std::string& request,
               const std::shared_ptr<RpcCall>& call) {
    const auto claims = rpc::decode_claims(request);
    if (!claims) return call->finish({RpcCode::invalid_argument, claims.error().message});
    const auto batch =
        std::make_shared<UnprepareBatch>(call, claims->size(), &rpc::encode_unprepared);
    for (const ClaimName& claim : *claims) {
        auto work = [parts, batch, claim] {
            const auto began = Steady::now();
            const auto result = parts.flow.unprepare(claim.uid);
            parts.ended(
                {.prepare = false, .claim = claim, .done = result, .took = Steady::now() - began});
            batch->end(claim.uid, result);
        };
        asio::post(parts.pool, std::move(work));
    }
}

}  // namespace

std::vector<rpc::RpcMethod> dra_methods(const DraParts& parts) {
    std::vector<rpc::RpcMethod> methods;
    for (const std::string version : {"v1", "v1beta1"}) {
        const std::string service = "/k8s.io.kubelet.pkg.apis.dra." + version + ".DRAPlugin/";
        methods.push_back(
            {.name = service + "NodePrepareResources",
             .unary = [parts](
                          const std::string& request,
                          const std::shared_ptr<RpcCall>& call) { prepare(parts, request, call); },
             .stream = {}});
        methods.push_back(
            {.name = service + "NodeUnprepareResources",
             .unary =
                 [parts](const std::string& request, const std::shared_ptr<RpcCall>& call) {
                     unprepare(parts, request, call);
                 },
             .stream = {}});
    }
    return methods;
}

}  // namespace drawbridge::agent
