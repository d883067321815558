#pragma once
// Tells the API server what may come late: the status of claims, and events. Nobody waits for it.

#include "agent/api/event_book.hpp"
#include "agent/api/outbox.hpp"
#include "agent/claim/claim_record.hpp"
#include "agent/process/cluster_api.hpp"
#include "base/clock.hpp"
#include "kube/client/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace drawbridge::agent {

struct CourierParts {
    boost::asio::any_io_executor strand;
    ClusterApi& api;
    const base::Clock& clock;
    std::string node;
};

/// One call at a time, so that no burst of events gets in the way of prepares; after a failure it
/// waits, longer each time.
class Courier {
public:
    explicit Courier(CourierParts parts);

    /// Any thread. The claim's status is to show that record, when no claim has been prepared for
    /// a second, five seconds later at the most.
    void prepared(ClaimRecord record);
    /// Any thread. The kubelet has done with the claim: what waits for it is pointless.
    void unprepared(std::string claim_uid);
    /// Any thread.
    void tell(std::vector<Occurrence> occurrences);
    /// Any thread.
    void send(std::vector<Notice> notices);

    /// Works until the API client is stopped; on the strand.
    [[nodiscard]] boost::asio::awaitable<void> run(std::function<double()> random);

    /// Any thread.
    [[nodiscard]] NoticeCounts counts(NoticeKind kind) const;

private:
    struct Count {
        std::atomic<std::uint64_t> delivered = 0;
        std::atomic<std::uint64_t> failed = 0;
        std::atomic<std::uint64_t> dropped = 0;
    };

    boost::asio::awaitable<Delivery> deliver(const Outbox::Turn& turn);
    Delivery judge(const Outbox::Turn& turn, const base::Result<base::JsonDocument>& answer);
    void note(const Outbox::Turn& turn, Delivery delivery, const std::string& reason);
    void put(Notice notice);
    void wake();

    CourierParts parts_;
    Outbox outbox_;
    EventBook book_;
    std::shared_ptr<kube::client::Event> wake_;
    std::array<Count, 3> counts_;  ///< by NoticeKind
    std::string last_reason_;
    std::optional<base::Clock::Steady> no_status_until_;
};

}  // namespace drawbridge::agent
