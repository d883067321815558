#include "agent/process/courier.hpp"

#include "agent/api/claim_status.hpp"
#include "agent/share/suspects.hpp"
#include "base/log.hpp"
#include "kube/client/backoff.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
namespace client = kube::client;
using base::Level;
using base::Result;
using std::chrono::steady_clock;

constexpr std::chrono::seconds call_time{15};
// Many pods start at once. What a write of status takes of the API server and of its disk is taken
// from the prepares behind it, so it waits for a second without one, but not for ever.
constexpr std::chrono::seconds status_quiet{1};
constexpr std::chrono::seconds status_latest{5};
// A gate that is off stays so until the API server is started anew.
constexpr std::chrono::hours no_field_time{1};
constexpr std::chrono::hours idle_time{1};

std::string_view kind_name(NoticeKind kind) {
    if (kind == NoticeKind::eviction) return "eviction";
    return kind == NoticeKind::claim_status ? "claim-status" : "event";
}

client::ApiCall call_of(const Notice& notice) {
    client::ApiCall call;
    call.method = notice.method;
    call.target = notice.target;
    call.body = notice.body;
    call.content_type = notice.content_type;
    call.deadline = steady_clock::now() + call_time;
    return call;
}

}  // namespace

Courier::Courier(CourierParts parts)
    : parts_(std::move(parts)),
      book_(parts_.node),
      wake_(std::make_shared<client::Event>(parts_.strand)) {}

void Courier::wake() {
    const auto before = std::exchange(wake_, std::make_shared<client::Event>(parts_.strand));
    before->set();
}

void Courier::put(Notice notice) {
    outbox_.put(std::move(notice), parts_.clock.steady());
    wake();
}

void Courier::prepared(ClaimRecord record) {
    asio::post(parts_.strand, [this, record = std::move(record)] {
        const auto now = parts_.clock.steady();
        outbox_.hold(NoticeKind::claim_status, now + status_quiet);
        if (no_status_until_ && now < *no_status_until_) return;
        outbox_.put(status_notice(record), now + status_quiet, now + status_latest);
        wake();
    });
}

void Courier::unprepared(std::string claim_uid) {
    asio::post(parts_.strand,
               [this, uid = std::move(claim_uid)] { outbox_.forget(status_key(uid)); });
}

void Courier::tell(std::vector<Occurrence> occurrences) {
    asio::post(parts_.strand, [this, occurrences = std::move(occurrences)] {
        for (const Occurrence& occurrence : occurrences) {
            if (auto notice = book_.tell(occurrence, parts_.clock.now())) put(*std::move(notice));
        }
    });
}

void Courier::send(std::vector<Notice> notices) {
    asio::post(parts_.strand, [this, notices = std::move(notices)] {
        for (const Notice& notice : notices)
            put(notice);
    });
}

NoticeCounts Courier::counts(NoticeKind kind) const {
    const Count& count = counts_[static_cast<std::size_t>(kind)];
    return {.delivered = count.delivered, .failed = count.failed, .dropped = count.dropped};
}

asio::awaitable<void> Courier::run(std::function<double()> random) {
    client::Event& stopping = parts_.api.rest().stopping();
    int failures = 0;
    while (!stopping.is_set()) {
        const auto waiting = wake_;
        const auto now = parts_.clock.steady();
        const auto turn = outbox_.next(now);
        if (!turn) {
            const auto until = outbox_.due().value_or(now + idle_time);
            co_await waiting->wait(until);
            continue;
        }
        const Delivery delivery = co_await deliver(*turn);
        const auto wait = [&](int times) { return client::backoff(times, random()); };
        outbox_.settle(*turn, delivery, parts_.clock.steady(), wait);
        failures = delivery == Delivery::again ? failures + 1 : 0;
        // Where one call fails the next one most likely does as well.
        if (failures > 0)
            co_await stopping.wait(steady_clock::now() + client::backoff(failures, random()));
    }
}

asio::awaitable<Delivery> Courier::deliver(const Outbox::Turn& turn) {
    auto call = call_of(turn.notice);
    const auto answer = co_await parts_.api.rest().call_json(std::move(call));
    const Delivery delivery = judge(turn, answer);
    note(turn, delivery, answer ? std::string() : answer.error().message);
    co_return delivery;
}

Delivery Courier::judge(const Outbox::Turn& turn, const Result<base::JsonDocument>& answer) {
    if (turn.notice.kind == NoticeKind::event) return event_delivery(answer);
    if (turn.notice.kind == NoticeKind::eviction) return eviction_delivery(answer);
    switch (status_end(answer, turn.failures)) {
        case StatusEnd::kept:
            return Delivery::done;
        case StatusEnd::failed:
            return Delivery::again;
        case StatusEnd::dropped:
            no_status_until_ = parts_.clock.steady() + no_field_time;
            base::log_event(Level::warn, "claim_status",
                            {{"reason",
                              "the API server keeps no status.devices of claims (feature gate "
                              "DRAResourceClaimDeviceStatus): none is written for an hour"}});
            return Delivery::dropped;
        case StatusEnd::gone:
            break;
    }
    return Delivery::dropped;
}

void Courier::note(const Outbox::Turn& turn, Delivery delivery, const std::string& reason) {
    Count& count = counts_[static_cast<std::size_t>(turn.notice.kind)];
    if (delivery == Delivery::done) ++count.delivered;
    if (delivery == Delivery::again) ++count.failed;
    if (delivery == Delivery::dropped) ++count.dropped;
    // An outage is one line, not one for each attempt.
    if (!reason.empty() && (delivery == Delivery::dropped || reason != last_reason_)) {
        base::log_event(Level::warn, "notice",
                        {{"kind", kind_name(turn.notice.kind)},
                         {"key", turn.notice.key},
                         {"again", delivery == Delivery::again},
                         {"reason", reason}});
    }
    if (delivery != Delivery::dropped) last_reason_ = reason;
}

}  // namespace drawbridge::agent
