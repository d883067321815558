#pragma once
// Tells of each claim's work: one line in the log, the counts, and what the cluster is shown of it.

#include "agent/prepare/prepare_flow.hpp"
#include "agent/process/courier.hpp"
#include "agent/process/dra_service.hpp"
#include "agent/report/metrics.hpp"
#include "agent/share/suspects.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <string>

namespace drawbridge::agent {

struct ClaimReportParts {
    AgentMetrics& metrics;
    PrepareFlow& flow;
    Courier& courier;
    boost::asio::any_io_executor pool;
    bool evict = false;  ///< pods whose processes take more than their share
};

/// Any thread. Does not block: what needs the disk is done on the pool.
class ClaimReport {
public:
    explicit ClaimReport(ClaimReportParts parts) : parts_(std::move(parts)) {}

    void ended(const ClaimWork& work);
    /// What the processes of a share are suspected of now, and what they were before.
    void suspected(const std::string& share, const Suspect& before, const Suspect& now);

private:
    void show(const ClaimWork& work);

    ClaimReportParts parts_;
};

}  // namespace drawbridge::agent
