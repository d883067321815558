#include "agent/claim/claim_facts.hpp"

#include "agent/json_reader.hpp"
#include "kube/name_rules.hpp"
#include "kube/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::agent {
namespace {

std::int64_t read_amount(JsonReader& reader, const Spot& spot) {
    const auto quantity = kube::parse_quantity(spot.view.scalar_text().value_or(""));
    const auto whole = quantity ? quantity->whole() : std::nullopt;
    if (whole && *whole >= 0) return *whole;
    reader.refuse(spot, "a whole amount from zero on is expected");
    return 0;
}

/// A device lists every capacity it has (dra.md 1.4): one that is missing or one more means that
/// the allocation was made against something else than what we publish.
std::optional<Amounts> read_consumed(JsonReader& reader, const Spot& spot) {
    if (spot.is_absent()) return std::nullopt;
    reader.members(spot, {"memory", "cores", "slots"});
    return Amounts{.memory_bytes = read_amount(reader, spot["memory"]),
                   .cores = read_amount(reader, spot["cores"]),
                   .slots = read_amount(reader, spot["slots"])};
}

AllocatedDevice read_result(JsonReader& reader, const Spot& at) {
    AllocatedDevice device{.request = reader.text(at["request"]),
                           .pool = reader.text(at["pool"]),
                           .device = reader.text(at["device"]),
                           .share_id = reader.text_or(at["shareID"], ""),
                           .admin = reader.boolean_or(at["adminAccess"], false),
                           .consumed = read_consumed(reader, at["consumedCapacity"])};
    const std::size_t slash = device.request.find('/');
    if (slash != std::string::npos) {
        device.subrequest = device.request.substr(slash + 1);
        device.request.resize(slash);
    }
    return device;
}

void read_config(JsonReader& reader, const Spot& at, ClaimFacts& facts) {
    const Spot opaque = at["opaque"];
    if (opaque.view["driver"].as_string() != driver_name) return;
    auto read = read_share_config(opaque.view["parameters"]);
    if (!read) {
        return reader.refuse(
            {{}, kube::PointerPath((opaque["parameters"].path.text() + read.error().path))},
            read.error().message);
    }
    facts.configs.push_back({.from_class = at.view["source"].as_string() == "FromClass",
                             .requests = reader.texts(at["requests"]),
                             .config = read->config});
    facts.warnings.insert(facts.warnings.end(), read->warnings.begin(), read->warnings.end());
}

bool concerns(const AllocatedConfig& config, const AllocatedDevice& device) {
    if (config.requests.empty()) return true;
    return std::ranges::any_of(config.requests, [&](const std::string& request) {
        return request == device.request ||
               (!device.subrequest.empty() &&
                request == fmt::format("{}/{}", device.request, device.subrequest));
    });
}

}  // namespace

base::Result<ClaimFacts> read_claim(base::JsonView claim) {
    JsonReader reader;
    const Spot root{claim};
    const Spot metadata = root["metadata"];
    ClaimFacts facts;
    facts.claim = {.name_space = reader.text(metadata["namespace"]),
                   .name = reader.text(metadata["name"]),
                   .uid = reader.text(metadata["uid"])};
    // What makes claims of templates writes it there; a person may write anything.
    facts.pod_claim =
        metadata.view["annotations"]["resource.kubernetes.io/pod-claim-name"].string_or("");
    if (!kube::is_dns_label(facts.pod_claim)) facts.pod_claim.clear();
    const Spot status = root["status"];
    for (const Spot& at : reader.list(status["reservedFor"])) {
        if (at.view["resource"].as_string() != "pods") continue;
        facts.consumers.push_back({reader.text(at["name"]), reader.text(at["uid"])});
    }
    const Spot allocation = status["allocation"];
    facts.allocated = allocation.view.is_object();
    for (const Spot& at : reader.list(allocation["devices"]["results"])) {
        if (at.view["driver"].as_string() == driver_name)
            facts.devices.push_back(read_result(reader, at));
    }
    for (const Spot& at : reader.list(allocation["devices"]["config"]))
        read_config(reader, at, facts);
    if (!reader.ok()) return reader.error();
    return facts;
}

std::vector<std::string> pods_of(const ClaimFacts& facts) {
    std::vector<std::string> pods;
    for (const Consumer& consumer : facts.consumers)
        pods.push_back(consumer.pod);
    return pods;
}

ShareConfig config_of(const ClaimFacts& facts, const AllocatedDevice& device) {
    ShareConfig bound;
    ShareConfig wish;
    for (const AllocatedConfig& config : facts.configs) {
        if (!concerns(config, device)) continue;
        ShareConfig& into = config.from_class ? bound : wish;
        into = overlaid(into, config.config);
    }
    return bounded(bound, wish);
}

}  // namespace drawbridge::agent
