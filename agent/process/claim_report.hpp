#pragma once
// Tells of each claim's work: one line in the log, the counts, and what the cluster is shown of it.

#include "agent/metrics.hpp"
#include "agent/prepare_flow.hpp"
#include "agent/process/courier.hpp"
#include "agent/process/dra_service.hpp"

#include <boost/asio/any_io_executor.hpp>

namespace drawbridge::agent {

struct ClaimReportParts {
    AgentMetrics& metrics;
    PrepareFlow& flow;
    Courier& courier;
    boost::asio::any_io_executor pool;
};

/// Any thread. Does not block: what needs the disk is done on the pool.
class ClaimReport {
public:
    explicit ClaimReport(ClaimReportParts parts) : parts_(std::move(parts)) {}

    void ended(const ClaimWork& work);

private:
    void show(const ClaimWork& work);

    ClaimReportParts parts_;
};

}  // namespace drawbridge::agent
