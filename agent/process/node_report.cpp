#include "agent/process/node_report.hpp"

#include "agent/cdi/cdi_spec.hpp"
#include "agent/rpc/messages.hpp"
#include "agent/rpc/rpc_client.hpp"
#include "http/operator_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::chrono::seconds kubelet_time{2};

}  // namespace

void NodeReport::set_publish(const PublishState& state) {
    const std::lock_guard lock(mutex_);
    publish_ = state;
}

void NodeReport::set_registration(bool registered, const std::string& error) {
    const std::lock_guard lock(mutex_);
    registered_ = registered;
    registration_error_ = error;
}

void NodeReport::set_devices(bool known, const std::string& trouble) {
    const std::lock_guard lock(mutex_);
    devices_known_ = known;
    device_trouble_ = trouble;
}

void NodeReport::set_xids(XidCounts counts) {
    const std::lock_guard lock(mutex_);
    xids_ = std::move(counts);
}

void NodeReport::set_instance_trouble(const std::string& trouble) {
    const std::lock_guard lock(mutex_);
    instance_trouble_ = trouble;
}

void NodeReport::set_stopping() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
}

std::vector<std::string> NodeReport::not_ready() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> reasons;
    if (stopping_) reasons.emplace_back("stopping");
    if (!instance_trouble_.empty()) reasons.push_back(instance_trouble_);
    if (const std::string refusal = parts_.checks.refusal(); !refusal.empty())
        reasons.push_back(refusal);
    if (!devices_known_) reasons.push_back("devices are not known: " + device_trouble_);
    if (!registered_) reasons.push_back("not registered: " + registration_error_);
    if (!publish_.published) {
        reasons.push_back("not published" +
                          (publish_.trouble.empty() ? "" : ": " + publish_.trouble));
    }
    return reasons;
}

std::vector<std::string> NodeReport::remarks() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::string> remarks = parts_.checks.remarks();
    const auto view = parts_.flow.view();
    const auto& lacks = view->container.driver.remarks;
    remarks.insert(remarks.end(), lacks.begin(), lacks.end());
    if (publish_.published && !publish_.trouble.empty()) remarks.push_back(publish_.trouble);
    if (devices_known_ && !device_trouble_.empty()) remarks.push_back(device_trouble_);
    for (const auto& [share, suspect] : parts_.book.suspects()) {
        const std::int64_t count = suspect.strangers;
        if (count > 0) {
            remarks.push_back(fmt::format("share {}: {} process{} on the GPU without the library",
                                          share, count, count == 1 ? "" : "es"));
        }
        if (suspect.overrun_bytes > 0) {
            remarks.push_back(fmt::format("share {}: {} MiB held beyond its limit", share,
                                          suspect.overrun_bytes >> 20U));
        }
    }
    if (publish_.published && publish_.devices == 0) remarks.emplace_back("no device is offered");
    return remarks;
}

std::vector<ShareOwner> NodeReport::owners() const {
    std::vector<ShareOwner> owners;
    const auto bytes =
        rpc::call_rpc(parts_.pod_resources, "/v1.PodResourcesLister/List", "", kubelet_time);
    if (!bytes) return owners;
    const auto shares = rpc::decode_pod_resources(*bytes);
    if (!shares) return owners;
    for (const rpc::ContainerShare& share : *shares)
        owners.push_back({share.cdi_id, share.name_space, share.pod, share.container});
    return owners;
}

std::vector<DeviceStatus> NodeReport::devices(const StoredClaims& stored) const {
    const auto read_share = [this](const std::string& share, std::int64_t physical) {
        ShareFacts facts;
        if (const auto limits = parts_.flow.folders().limits(share)) facts.limits = *limits;
        if (const auto found = parts_.book.look(share, physical)) facts.activity = *found;
        return facts;
    };
    return node_status(parts_.flow.view()->inventory, stored.records, owners(), read_share);
}

http::HttpAnswer NodeReport::status() const {
    const auto stored = parts_.flow.stored();
    if (!stored) return http::failure(stored.error(), "the records of claims");
    return http::json_page(status_json(devices(*stored)));
}

http::HttpAnswer NodeReport::metrics() const {
    const auto stored = parts_.flow.stored();
    if (!stored) return http::failure(stored.error(), "the records of claims");
    MetricFacts facts{.node = parts_.node,
                      .hami = parts_.hami,
                      .devices = devices(*stored),
                      .unreadable_records = static_cast<std::int64_t>(stored->unreadable.size()),
                      .cdi_files = parts_.flow.count_cdi_files(),
                      .orphans = parts_.orphans(),
                      .claim_status = parts_.notices(NoticeKind::claim_status),
                      .events = parts_.notices(NoticeKind::event),
                      .evictions = parts_.notices(NoticeKind::eviction)};
    facts.cdi = parts_.checks.cdi();
    facts.instances = parts_.checks.instances();
    facts.prepared_claims = std::ranges::count_if(stored->records, [](const ClaimRecord& record) {
        return record.state == ClaimState::started;
    });
    {
        const std::lock_guard lock(mutex_);
        facts.xids = xids_;
        facts.slice_generation = publish_.generation;
        facts.published = publish_.published;
        facts.registered = registered_;
    }
    return http::metrics_page(parts_.metrics.render(facts));
}

http::HttpAnswer NodeReport::answer(std::string_view method, std::string_view target,
                                    std::string_view body) {
    const std::vector<http::OperatorPage> pages = {
        {"/readyz", [this] { return http::readiness_page(not_ready(), remarks()); }},
        {"/metrics", [this] { return metrics(); }},
        {"/status", [this] { return status(); }}};
    return http::answer_pages(pages, method, target, body);
}

}  // namespace drawbridge::agent
