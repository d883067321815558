#include "agent/process/claim_report.hpp"

#include "agent/prepare/share_record.hpp"
#include "base/log.hpp"

#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::agent {
namespace {

using base::Level;

std::int64_t micros(std::chrono::nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

std::string share_list(const std::vector<PreparedShare>& shares) {
    std::vector<std::string> parts;
    for (const PreparedShare& share : shares)
        parts.push_back(fmt::format("{}={}", share.request, share.device));
    return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

void ClaimReport::ended(const ClaimWork& work) {
    if (work.prepare) {
        parts_.metrics.count_prepare(work.done, work.took);
    } else {
        parts_.metrics.count_unprepare(work.done, work.took);
    }
    const std::string_view verdict = work.done ? "done" : "refused";
    const std::string reason = work.done ? "" : work.done.error().message;
    base::log_event(work.done ? Level::info : Level::warn, work.prepare ? "prepare" : "unprepare",
                    {{"uid", work.claim.uid},
                     {"namespace", work.claim.name_space},
                     {"claim", work.claim.name},
                     {"verdict", verdict},
                     {"shares", share_list(work.shares)},
                     {"reason", reason},
                     {"micros", micros(work.took)},
                     {"api_micros", micros(work.asked)}});
    for (const std::string& warning : work.warnings)
        base::log_event(Level::warn, "share_config",
                        {{"uid", work.claim.uid}, {"reason", warning}});
    show(work);
}

void ClaimReport::suspected(const std::string& share, const Suspect& before, const Suspect& now) {
    boost::asio::post(parts_.pool, [parts = parts_, share, before, now] {
        const auto found = find_share(parts.flow, share);
        if (!found) return;
        auto occurrences = suspect_occurrences(before, now, found->record, found->share);
        if (parts.evict && !occurrences.empty())
            parts.courier.send(eviction_notices(now, found->record));
        parts.courier.tell(std::move(occurrences));
    });
}

/// What people find of it in the cluster. Nobody waits for it.
void ClaimReport::show(const ClaimWork& work) {
    if (!work.prepare) return parts_.courier.unprepared(work.claim.uid);
    if (!work.done) {
        return parts_.courier.tell(
            refusal_occurrences(work.claim, work.consumers, work.done.error()));
    }
    if (work.shares.empty()) return;
    boost::asio::post(parts_.pool, [parts = parts_, uid = work.claim.uid] {
        auto record = parts.flow.record(uid);
        if (record && *record && (**record).state == ClaimState::started)
            parts.courier.prepared(*std::move(*record));
    });
}

}  // namespace drawbridge::agent
