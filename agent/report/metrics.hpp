#pragma once
// What the agent counts; docs/metrics.md describes each, tests/golden/agent_metrics.txt lists them.

#include "agent/api/outbox.hpp"
#include "agent/cdi/runtime_facts.hpp"
#include "agent/report/hami_metrics.hpp"
#include "agent/report/node_status.hpp"
#include "agent/source/device_source.hpp"
#include "base/prometheus.hpp"
#include "base/result.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace drawbridge::agent {

/// What is read where a scrape is answered.
struct MetricFacts {
    std::string node = {};
    HamiMetrics hami = HamiMetrics::off;  ///< names beside our own
    std::vector<DeviceStatus> devices = {};
    std::int64_t prepared_claims = 0;
    std::int64_t unreadable_records = 0;
    std::int64_t cdi_files = 0;
    std::int64_t slice_generation = 0;
    bool registered = false;
    bool published = false;
    std::uint64_t orphans = 0;
    NoticeCounts claim_status = {};
    NoticeCounts events = {};
    NoticeCounts evictions = {};
    CdiState cdi = CdiState::unknown;
    std::int64_t instances = 1;
    XidCounts xids = {};
};

/// Any thread may count.
class AgentMetrics {
public:
    void count_prepare(const base::Result<void>& done, std::chrono::nanoseconds took);
    void count_unprepare(const base::Result<void>& done, std::chrono::nanoseconds took);
    void count_publish(bool success);

    /// The Prometheus text.
    [[nodiscard]] std::string render(const MetricFacts& facts) const;

private:
    static constexpr std::size_t kinds = 7;  ///< of `base::ErrorKind`

    void render_calls(std::string& out) const;

    std::array<base::DurationHistogram, 2> prepares_{};  ///< done, refused
    std::array<base::DurationHistogram, 2> unprepares_{};
    std::array<base::Counter, kinds> errors_{};
    std::array<base::Counter, 2> publishes_{};  ///< failure, success
};

}  // namespace drawbridge::agent
