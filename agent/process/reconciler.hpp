#pragma once
// Compares what is kept of claims with what the API server and the kubelet know of them
// (node-agent.md 4, 13).

#include "agent/prepare/prepare_flow.hpp"
#include "agent/process/cluster_api.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <atomic>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace drawbridge::agent {

struct ReconcileParts {
    boost::asio::any_io_executor strand;
    boost::asio::any_io_executor pool;
    ClusterApi& api;
    PrepareFlow& flow;
    std::string pod_resources;  ///< socket of the kubelet's PodResources
};

/// The kubelet may never ask for the end of a claim: it was restarted, or the claim's pod was
/// removed by force. Such claims are ended here once the API server has no claim of that UID, or
/// one that is not allocated, or otherwise, and the kubelet hands out none of its devices.
class Reconciler {
public:
    explicit Reconciler(ReconcileParts parts) : parts_(std::move(parts)) {}

    /// One round; on the strand. Takes one call to the API server for each claim, and none that
    /// grows with the cluster unless a record is damaged.
    [[nodiscard]] boost::asio::awaitable<void> round();

    [[nodiscard]] std::uint64_t orphans() const { return orphans_; }

private:
    using InUse = std::optional<std::set<std::string>>;

    boost::asio::awaitable<InUse> used_ids();
    boost::asio::awaitable<bool> is_gone(ClaimRecord record);
    boost::asio::awaitable<void> end_orphan(ClaimRecord record);
    boost::asio::awaitable<void> rebuild(std::vector<std::string> unreadable, InUse used);

    ReconcileParts parts_;
    std::atomic<std::uint64_t> orphans_ = 0;
};

/// A record made of what the API server says, for one that was lost; nothing where a device of it
/// is not there. Its files are not known to be whole.
[[nodiscard]] std::optional<ClaimRecord> record_from(const ClaimFacts& facts, const NodeView& view);

}  // namespace drawbridge::agent
