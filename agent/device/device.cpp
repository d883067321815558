#include "agent/device/device.hpp"

#include "base/hash.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace drawbridge::agent {
namespace {

constexpr std::array<std::pair<TaintEffect, std::string_view>, 3> effects = {
    {{TaintEffect::none, "None"},
     {TaintEffect::no_schedule, "NoSchedule"},
     {TaintEffect::no_execute, "NoExecute"}}};

// Sixteen characters of base 32 are 80 bits: two cards of one node never meet.
constexpr std::size_t hash_chars = 16;

}  // namespace

std::string_view effect_name(TaintEffect effect) {
    return effects[static_cast<std::size_t>(effect)].second;
}

std::optional<TaintEffect> effect_from_name(std::string_view name) {
    for (const auto& [effect, text] : effects) {
        if (text == name) return effect;
    }
    return std::nullopt;
}

bool has_fault(const Device& device, std::string_view key) {
    return std::ranges::find(device.faults, key, &Fault::key) != device.faults.end();
}

bool is_lost(const Device& device) {
    return has_fault(device, lost_key);
}

std::string device_name(const Device& device) {
    return (device.type == DeviceType::mig ? "mig-" : "gpu-") +
           base::base32_lower(base::sha256(device.uuid), hash_chars);
}

std::string normal_bus_id(std::string_view text) {
    std::string id = base::lower_ascii(text);
    const std::size_t colon = id.find(':');
    if (colon == 8 && id.starts_with("0000")) id.erase(0, 4);
    return id;
}

}  // namespace drawbridge::agent
