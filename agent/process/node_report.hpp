#pragma once
// What the operator port tells of a node.

#include "agent/prepare/prepare_flow.hpp"
#include "agent/process/node_checks.hpp"
#include "agent/process/slice_publisher.hpp"
#include "agent/report/metrics.hpp"
#include "agent/report/node_status.hpp"
#include "agent/source/device_source.hpp"
#include "http/answer.hpp"

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

struct ReportParts {
    PrepareFlow& flow;
    ShareBook& book;
    AgentMetrics& metrics;
    const NodeChecks& checks;
    std::string node = {};
    HamiMetrics hami = HamiMetrics::off;
    std::string pod_resources;  ///< socket of the kubelet's PodResources
    std::function<std::uint64_t()> orphans;
    std::function<NoticeCounts(NoticeKind)> notices;
};

/// Any thread; the pages block on files, and on the kubelet for a moment.
class NodeReport {
public:
    explicit NodeReport(ReportParts parts) : parts_(std::move(parts)) {}

    void set_publish(const PublishState& state);
    /// What the kubelet made of the last registration; `error` is empty where it took us.
    void set_registration(bool registered, const std::string& error);
    /// Whether the devices of the node are known, and what is wrong with them or with settings.
    void set_devices(bool known, const std::string& trouble);
    void set_xids(XidCounts counts);
    /// Another agent has this one's name; empty: none.
    void set_instance_trouble(const std::string& trouble);
    void set_stopping();

    /// Answers `/readyz`, `/metrics`, `/status` and what every operator port has.
    [[nodiscard]] http::HttpAnswer answer(std::string_view method, std::string_view target,
                                          std::string_view body);

private:
    [[nodiscard]] std::vector<std::string> not_ready() const;
    [[nodiscard]] std::vector<std::string> remarks() const;
    [[nodiscard]] std::vector<ShareOwner> owners() const;
    [[nodiscard]] std::vector<DeviceStatus> devices(const StoredClaims& stored) const;
    [[nodiscard]] http::HttpAnswer status() const;
    [[nodiscard]] http::HttpAnswer metrics() const;

    ReportParts parts_;
    mutable std::mutex mutex_;
    PublishState publish_;
    bool registered_ = false;
    std::string registration_error_ = "the kubelet has not asked for it yet";
    bool devices_known_ = false;
    std::string device_trouble_;
    std::string instance_trouble_;
    XidCounts xids_;
    bool stopping_ = false;
};

}  // namespace drawbridge::agent
