#include "agent/api/claim_status.hpp"

#include "agent/api/api_text.hpp"
#include "agent/api/slices.hpp"

#include <fmt/format.h>

#include <set>
#include <tuple>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::JsonWriter;

// A 409 is a claim that was replaced, or writers that met; these meet again only so often.
constexpr int most_conflicts = 4;

void write_condition(JsonWriter& out, std::int64_t time) {
    out.key("conditions").begin_array().begin_object();
    out.member("type", "Ready").member("status", "True").member("reason", "Prepared");
    out.member("message", "the device is prepared for the containers of the claim");
    out.member("lastTransitionTime", api_time(time));
    out.end_object().end_array();
}

void write_data(JsonWriter& out, const Share& share) {
    out.key("data").begin_object().member("uuid", share.uuid);
    if (!share.admin) {
        out.key("limits").begin_object();
        out.member("memory", binary_quantity(share.amounts.memory_bytes));
        out.member("cores", std::to_string(share.amounts.cores));
        out.member("slots", std::to_string(share.amounts.slots)).end_object();
    }
    out.end_object();
}

void write_devices(JsonWriter& out, const ClaimRecord& record) {
    std::set<std::tuple<std::string, std::string, std::string>> written;
    out.key("devices").begin_array();
    for (const Share& share : record.shares) {
        // Requests with admin access may have one device several times; the list has it once.
        if (!written.emplace(share.pool, share.device, share.share_id).second) continue;
        out.begin_object().member("driver", driver_name).member("pool", share.pool);
        out.member("device", share.device);
        if (!share.share_id.empty()) out.member("shareID", share.share_id);
        write_condition(out, record.time);
        write_data(out, share);
        out.end_object();
    }
    out.end_array();
}

}  // namespace

std::string status_key(std::string_view claim_uid) {
    return fmt::format("claim/{}", claim_uid);
}

Notice status_notice(const ClaimRecord& record) {
    JsonWriter out;
    out.begin_object().member("apiVersion", "resource.k8s.io/v1").member("kind", "ResourceClaim");
    out.key("metadata").begin_object();
    out.member("namespace", record.claim.name_space).member("name", record.claim.name);
    out.member("uid", record.claim.uid).end_object();
    out.key("status").begin_object();
    write_devices(out, record);
    out.end_object().end_object();
    return {.kind = NoticeKind::claim_status,
            .key = status_key(record.claim.uid),
            .method = "PATCH",
            .target = fmt::format("/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims/{}/status"
                                  "?fieldManager={}&force=true",
                                  record.claim.name_space, record.claim.name, driver_name),
            .content_type = "application/apply-patch+yaml",
            .body = out.take()};
}

StatusEnd status_end(const base::Result<base::JsonDocument>& answer, int failures) {
    if (answer) {
        const base::JsonView status = answer->root()["status"];
        for (std::size_t i = 0; i < status["devices"].size(); ++i) {
            if (status["devices"].at(i)["driver"].as_string() == driver_name)
                return StatusEnd::kept;
        }
        // Entries of a claim that is not allocated any more go by themselves.
        return status["allocation"].is_object() ? StatusEnd::dropped : StatusEnd::gone;
    }
    switch (answer.error().kind) {
        case ErrorKind::not_found:
        case ErrorKind::invalid_input:  // a device that is not allocated to it any more
            return StatusEnd::gone;
        case ErrorKind::conflict:
            return failures < most_conflicts ? StatusEnd::failed : StatusEnd::gone;
        default:
            return StatusEnd::failed;
    }
}

}  // namespace drawbridge::agent
