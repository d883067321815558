#include "translate/feature_trial.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

namespace drawbridge::translate {

namespace {

kube::DeviceAlternative shared_part(std::string name, const Target& target) {
    kube::DeviceAlternative part{.name = std::move(name), .device_class = target.device_class};
    part.capacity = {{"cores", "0"}, {"memory", "1Mi"}};
    return part;
}

}  // namespace

std::optional<int> read_minor(base::JsonView version) {
    if (version["major"].as_string() != "1") return std::nullopt;
    std::string_view text = version["minor"].string_or("");
    if (text.ends_with('+')) text.remove_suffix(1);
    int minor = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), minor);
    if (failure != std::errc() || end != text.data() + text.size() || minor < 1)
        return std::nullopt;
    return minor;
}

kube::ClaimSpec trial_spec(const Target& target) {
    kube::ClaimSpec spec;
    spec.requests = {
        {.name = "gpu-0", .alternatives = {shared_part("", target)}},
        {.name = "gpu-1",
         .alternatives = {shared_part("gpu-1-0", target), shared_part("gpu-1-1", target)}}};
    spec.constraints = {
        {.requests = {"gpu-0", "gpu-1"},
         .match_attribute = {},
         .distinct_attribute = fmt::format("{}/{}", target.driver, target.uuid_attribute)}};
    return spec;
}

std::string trial_json(const kube::ClaimSpec& spec) {
    base::JsonWriter json;
    json.begin_object()
        .member("apiVersion", "resource.k8s.io/v1")
        .member("kind", "ResourceClaimTemplate")
        .key("metadata")
        .begin_object()
        .member("generateName", "drawbridge-probe-")  // a fixed name could exist
        .end_object()
        .key("spec")
        .begin_object()
        .key("spec")
        .begin_object()
        .key("devices")
        .raw(kube::to_json(spec))
        .end_object()
        .end_object()
        .end_object();
    return json.take();
}

std::string dropped_fields(const kube::ClaimSpec& asked, base::JsonView devices) {
    const auto kept = kube::claim_spec_from_json(devices);
    if (kept && kube::same_content(asked, *kept)) return {};
    std::string out;
    const auto note = [&](bool dropped, std::string_view what) {
        if (!dropped) return;
        out += out.empty() ? "" : ", ";
        out += what;
    };
    note(devices.find("/requests/0/exactly/capacity").is_absent(),
         "capacity.requests (DRAConsumableCapacity)");
    note(devices.find("/requests/1/firstAvailable").is_absent(),
         "firstAvailable (DRAPrioritizedList)");
    note(!asked.constraints.empty() && devices.find("/constraints/0/distinctAttribute").is_absent(),
         "distinctAttribute (DRAConsumableCapacity)");
    return out.empty() ? "what came back differs from what was sent" : out;
}

}  // namespace drawbridge::translate
