#include "agent/api/event_book.hpp"

#include "agent/api/api_text.hpp"
#include "base/hash.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace drawbridge::agent {
namespace {

using base::ErrorKind;
using base::JsonWriter;

// Bounds of the API (core validation of events).
constexpr std::size_t max_note = 1024;
constexpr std::size_t max_instance = 128;
// With hash and dot below the 253 bytes of a name.
constexpr std::size_t max_prefix = 220;
constexpr std::size_t hash_chars = 16;
constexpr std::size_t most_pods = 16;
constexpr std::string_view events_path = "/apis/events.k8s.io/v1/namespaces";

/// What two occurrences of one series share. The API lets nothing else of an event change.
std::string sameness(const Occurrence& occurrence) {
    const ObjectName& object = occurrence.regarding;
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", object.kind, object.name_space, object.name,
                       object.uid, occurrence.reason, occurrence.note);
}

bool is_same_object(const ObjectName& left, const ObjectName& right) {
    return left.kind == right.kind && left.name_space == right.name_space &&
           left.name == right.name && left.uid == right.uid;
}

void write_object(JsonWriter& out, std::string_view key, const ObjectName& object) {
    out.key(key).begin_object().member("apiVersion", object.api_version);
    out.member("kind", object.kind).member("name", object.name);
    if (!object.name_space.empty()) out.member("namespace", object.name_space);
    if (!object.uid.empty()) out.member("uid", object.uid);
    out.end_object();
}

/// `node.kubernetes.io` has no namespace: events on what has none lie in `default`.
std::string namespace_of(const ObjectName& object) {
    return object.name_space.empty() ? "default" : object.name_space;
}

std::string series_body(std::int64_t count, EventBook::Wall now) {
    JsonWriter out;
    out.begin_object().key("series").begin_object();
    out.key("count").integer(count).member("lastObservedTime", api_micro_time(now));
    out.end_object().end_object();
    return out.take();
}

const Fault* find_fault(const Device& device, std::string_view key) {
    const auto found = std::ranges::find(device.faults, key, &Fault::key);
    return found == device.faults.end() ? nullptr : &*found;
}

std::string reason_of(const Fault& fault) {
    if (fault.key == lost_key) return "GpuLost";
    if (fault.key == driver_key) return "GpuDriverFailed";
    if (fault.key == "xid") return "GpuError";
    if (fault.key == "reset-required") return "GpuResetRequired";
    return "GpuFault";
}

std::string described(const Offer& offer) {
    const std::string place = offer.device.place.pci_bus_id.empty()
                                  ? std::string()
                                  : fmt::format(" at {}", offer.device.place.pci_bus_id);
    return fmt::format("GPU {}{} (device {})", offer.device.uuid, place, offer.name);
}

ObjectName node_object(std::string_view node) {
    // As the kubelet names its node in events, so that `kubectl describe node` finds both.
    return {
        .api_version = "v1", .kind = "Node", .name = std::string(node), .uid = std::string(node)};
}

Occurrence fault_occurrence(const Offer& offer, const Fault& fault, std::string_view node) {
    const std::string what = fault.message.empty() ? fault.key : fault.message;
    return {.regarding = node_object(node),
            .reason = reason_of(fault),
            .action = "WatchDevice",
            .note = fmt::format("{}: {}; it is tainted {}/{} with effect {}", described(offer),
                                what, driver_name, fault.key, effect_name(fault.effect))};
}

Occurrence recovery_occurrence(const Offer& offer, const Fault& fault, std::string_view node) {
    return {.regarding = node_object(node),
            .warning = false,
            .reason = "GpuRecovered",
            .action = "WatchDevice",
            .note = fmt::format("{}: {} is over, the taint is gone", described(offer), fault.key)};
}

/// The fault of that key which keeps pods away, if the device has one.
const Fault* serious_fault(const Offer* offer, std::string_view key) {
    if (offer == nullptr) return nullptr;
    const Fault* fault = find_fault(offer->device, key);
    return fault == nullptr || fault->effect == TaintEffect::none ? nullptr : fault;
}

}  // namespace

void EventBook::forget_old(Wall now) {
    // A time ahead was taken before the clock was set back.
    std::erase_if(series_, [now](const auto& entry) {
        return now - entry.second.first >= series_time || entry.second.first > now;
    });
    if (series_.size() < most_series) return;
    const auto first = [](const auto& entry) { return entry.second.first; };
    series_.erase(std::ranges::min_element(series_, {}, first));
}

std::size_t EventBook::told_of(const ObjectName& object) const {
    return static_cast<std::size_t>(std::ranges::count_if(series_, [&](const auto& entry) {
        return is_same_object(entry.second.regarding, object);
    }));
}

std::optional<Notice> EventBook::tell(const Occurrence& occurrence, Wall now) {
    forget_old(now);
    const std::string same = sameness(occurrence);
    const auto found = series_.find(same);
    if (found == series_.end()) {
        if (told_of(occurrence.regarding) >= most_of_object) return std::nullopt;
        const std::string hash =
            base::base32_lower(base::sha256(same + '\n' + api_micro_time(now)), hash_chars);
        Series series{
            .regarding = occurrence.regarding,
            .name_space = namespace_of(occurrence.regarding),
            .name = fmt::format("{}.{}", occurrence.regarding.name.substr(0, max_prefix), hash),
            .first = now,
            .told = now};
        return create(occurrence, series_.emplace(same, std::move(series)).first->second);
    }
    Series& series = found->second;
    ++series.count;
    if (now - series.told < series.wait) return std::nullopt;
    series.told = now;
    series.wait = std::min(series.wait * 2, longest_wait);
    return Notice{
        .key = fmt::format("series/{}/{}", series.name_space, series.name),
        .method = "PATCH",
        .target = fmt::format("{}/{}/events/{}", events_path, series.name_space, series.name),
        .content_type = "application/merge-patch+json",
        .body = series_body(series.count, now)};
}

Notice EventBook::create(const Occurrence& occurrence, const Series& series) const {
    JsonWriter out;
    out.begin_object().member("apiVersion", "events.k8s.io/v1").member("kind", "Event");
    out.key("metadata").begin_object();
    out.member("name", series.name).member("namespace", series.name_space).end_object();
    out.member("eventTime", api_micro_time(series.first));
    out.member("reportingController", driver_name);
    out.member("reportingInstance", instance_.substr(0, max_instance));
    out.member("type", occurrence.warning ? "Warning" : "Normal");
    out.member("reason", occurrence.reason).member("action", occurrence.action);
    out.member("note", bounded_text(occurrence.note, max_note));
    write_object(out, "regarding", occurrence.regarding);
    if (occurrence.related) write_object(out, "related", *occurrence.related);
    out.end_object();
    return {.key = fmt::format("event/{}/{}", series.name_space, series.name),
            .method = "POST",
            .target = fmt::format("{}/{}/events", events_path, series.name_space),
            .content_type = "application/json",
            .body = out.take()};
}

std::vector<Occurrence> device_occurrences(const Inventory& before, const Inventory& after,
                                           std::string_view node) {
    std::vector<Occurrence> found;
    for (const Offer& offer : after.offers()) {
        const Offer* old = before.find_uuid(offer.device.uuid);
        for (const Fault& fault : offer.device.faults) {
            const Fault* same = serious_fault(old, fault.key);
            const bool fresh = same == nullptr || same->value != fault.value;
            if (fresh && fault.effect != TaintEffect::none)
                found.push_back(fault_occurrence(offer, fault, node));
        }
        if (old == nullptr) continue;
        for (const Fault& fault : old->device.faults) {
            const bool over = serious_fault(&offer, fault.key) == nullptr;
            if (over && fault.effect != TaintEffect::none)
                found.push_back(recovery_occurrence(offer, fault, node));
        }
    }
    return found;
}

Occurrence runtime_occurrence(const std::string& refusal, std::string_view node) {
    const bool off = !refusal.empty();
    return {.regarding = node_object(node),
            .warning = off,
            .reason = off ? "CdiOff" : "CdiOn",
            .action = "CheckRuntime",
            .note = off ? "no GPU is offered: " + refusal
                        : "the container runtime takes CDI files; GPUs are offered again"};
}

std::vector<Occurrence> refusal_occurrences(const ClaimName& claim,
                                            const std::vector<Consumer>& consumers,
                                            const base::Error& error) {
    std::vector<Occurrence> found;
    // The kubelet has given up, and asks again.
    if (error.kind == ErrorKind::timed_out) return found;
    const std::string place = error.path.empty() ? "" : fmt::format("{}: ", error.path);
    for (std::size_t i = 0; i < std::min(consumers.size(), most_pods); ++i) {
        found.push_back({.regarding = {.api_version = "v1",
                                       .kind = "Pod",
                                       .name_space = claim.name_space,
                                       .name = consumers[i].pod,
                                       .uid = consumers[i].uid},
                         .related = ObjectName{.api_version = "resource.k8s.io/v1",
                                               .kind = "ResourceClaim",
                                               .name_space = claim.name_space,
                                               .name = claim.name,
                                               .uid = claim.uid},
                         .reason = "PrepareRefused",
                         .action = "PrepareDevices",
                         .note = fmt::format("claim {} cannot be prepared: {}{}", claim.name, place,
                                             error.message)});
    }
    return found;
}

Delivery event_delivery(const base::Result<base::JsonDocument>& answer) {
    if (answer) return Delivery::done;
    switch (answer.error().kind) {
        case ErrorKind::conflict:  // it is there: an answer got lost
            return Delivery::done;
        case ErrorKind::not_found:  // its time is over, or its namespace's
        case ErrorKind::forbidden:  // a namespace that ends takes no new object
        case ErrorKind::invalid_input:
            return Delivery::dropped;
        default:
            return Delivery::again;
    }
}

}  // namespace drawbridge::agent
