#include "agent/report/node_status.hpp"

#include "agent/cdi/cdi_spec.hpp"
#include "agent/report/text_table.hpp"
#include "base/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace drawbridge::agent {
namespace {

std::vector<ShareOwner> owners_of(std::span<const ShareOwner> owners, std::string_view id) {
    std::vector<ShareOwner> found;
    for (const ShareOwner& owner : owners) {
        if (owner.cdi_id == id) found.push_back(owner);
    }
    if (found.empty()) found.emplace_back();
    return found;
}

void add_share(DeviceStatus& device, const ClaimRecord& record, std::size_t index,
               std::span<const ShareOwner> owners, const ReadShare& read_share) {
    const Share& share = record.shares[index];
    const std::string name = share_name(record.claim.uid, index);
    // An administrator's share takes nothing, whatever it asked for.
    const Amounts taken = share.admin ? Amounts() : share.amounts;
    ShareStatus status{.claim = record.claim,
                       .index = index,
                       .request = share.request,
                       .allocated = taken,
                       .in_force = taken};
    if (!share.admin) {
        const ShareFacts facts = read_share(name, device.offer.device.memory_bytes);
        status.activity = facts.activity.value_or(ShareActivity());
        if (facts.limits) status.in_force = in_force(share.amounts, *facts.limits);
    }
    for (ShareOwner& owner : owners_of(owners, cdi_id(name))) {
        status.owner = std::move(owner);
        device.shares.push_back(status);
    }
}

void write_amounts(base::JsonWriter& out, const Amounts& amounts) {
    out.key("memoryBytes").integer(amounts.memory_bytes);
    out.key("cores").integer(amounts.cores).key("slots").integer(amounts.slots);
}

std::int64_t whole(std::uint64_t count) {
    return static_cast<std::int64_t>(count & INT64_MAX);
}

void write_activity(base::JsonWriter& out, const ShareActivity& activity) {
    out.key("usedBytes").integer(activity.use.used_bytes);
    out.key("processes").integer(activity.use.processes);
    out.key("launches").integer(whole(activity.totals.launches));
    out.key("throttledMilliseconds").integer(whole(activity.totals.throttle_ns / 1'000'000));
    out.key("denied").integer(whole(activity.totals.denied));
    out.key("perSecond").begin_object();
    out.key("launches").integer(activity.rates.launches);
    out.key("throttledMilliseconds").integer(activity.rates.throttled_permille);
    out.key("denied").integer(activity.rates.denied).end_object();
}

void write_share(base::JsonWriter& out, const ShareStatus& share) {
    out.begin_object().member("namespace", share.claim.name_space);
    out.member("pod", share.owner.pod).member("container", share.owner.container);
    out.member("claim", share.claim.name).member("claimUID", share.claim.uid);
    out.key("share").integer(static_cast<std::int64_t>(share.index));
    out.member("request", share.request);
    write_amounts(out, share.in_force);
    if (!(share.in_force == share.allocated)) {
        out.key("allocated").begin_object();
        write_amounts(out, share.allocated);
        out.end_object();
    }
    write_activity(out, share.activity);
    out.end_object();
}

std::string mebibytes(base::JsonView bytes) {
    return fmt::format("{} MiB", bytes.as_int().value_or(0) >> 20);
}

std::string cores_text(base::JsonView cores) {
    return cores.scalar_text().value_or("0");
}

/// `2048 MiB of 8192 MiB` where less is in force than was allocated; no limit on compute is `0`.
std::string of_allocated(base::JsonView share, std::string_view member,
                         std::string (*text)(base::JsonView)) {
    const std::string now = text(share[member]);
    const base::JsonView allocated = share["allocated"];
    if (!allocated.is_object()) return now;
    const std::string given = text(allocated[member]);
    return given == now ? now : fmt::format("{} of {}", now, given);
}

}  // namespace

std::string_view health_name(const Device& device) {
    const auto is_bad = [](const Fault& fault) { return fault.effect != TaintEffect::none; };
    if (std::ranges::any_of(device.faults, is_bad)) return "Unhealthy";
    const auto is_blind = [](const Fault& fault) { return fault.key == "unmonitored"; };
    return std::ranges::any_of(device.faults, is_blind) ? "Unknown" : "Healthy";
}

std::vector<DeviceStatus> node_status(const Inventory& inventory, const ClaimRecords& records,
                                      std::span<const ShareOwner> owners,
                                      const ReadShare& read_share) {
    std::vector<DeviceStatus> devices;
    for (const Offer& offer : inventory.offers()) {
        DeviceStatus device{.offer = offer, .health = std::string(health_name(offer.device))};
        for (const ClaimRecord& record : records) {
            if (record.state == ClaimState::unprepared) continue;
            for (std::size_t i = 0; i < record.shares.size(); ++i) {
                if (record.shares[i].uuid == offer.device.uuid)
                    add_share(device, record, i, owners, read_share);
            }
        }
        devices.push_back(std::move(device));
    }
    return devices;
}

std::string status_json(const std::vector<DeviceStatus>& devices) {
    base::JsonWriter out;
    out.begin_object().key("devices").begin_array();
    for (const DeviceStatus& device : devices) {
        out.begin_object().member("name", device.offer.name);
        out.member("uuid", device.offer.device.uuid);
        out.member("productName", device.offer.device.product_name);
        out.key("memoryBytes").integer(device.offer.capacity.memory_bytes);
        out.member("health", device.health).key("shares").begin_array();
        for (const ShareStatus& share : device.shares)
            write_share(out, share);
        out.end_array().end_object();
    }
    out.end_array().end_object();
    return out.take();
}

base::Result<std::string> status_table(const std::string& json) {
    const auto document = base::parse_json(json);
    if (!document) return tl::unexpected(document.error());
    const base::JsonView devices = document->root()["devices"];
    if (devices.size() == 0) return std::string("no devices\n");
    std::vector<TableRow> rows = {{"DEVICE", "PRODUCT", "HEALTH", "NAMESPACE", "POD", "CONTAINER",
                                   "CLAIM", "MEMORY", "CORES", "USED"}};
    for (std::size_t i = 0; i < devices.size(); ++i) {
        const base::JsonView device = devices.at(i);
        const base::JsonView shares = device["shares"];
        rows.push_back({or_dash(device["name"]), or_dash(device["productName"]),
                        or_dash(device["health"]), "", "", "", "", mebibytes(device["memoryBytes"]),
                        "", ""});
        for (std::size_t k = 0; k < shares.size(); ++k) {
            const base::JsonView share = shares.at(k);
            rows.push_back({"", "", "", or_dash(share["namespace"]), or_dash(share["pod"]),
                            or_dash(share["container"]), or_dash(share["claim"]),
                            of_allocated(share, "memoryBytes", mebibytes),
                            of_allocated(share, "cores", cores_text),
                            mebibytes(share["usedBytes"])});
        }
    }
    return lay_out(rows);
}

}  // namespace drawbridge::agent
