#include "agent/share/context_sizes.hpp"

#include <algorithm>

namespace drawbridge::agent {
namespace {

constexpr std::uint64_t mib = 1U << 20U;

}  // namespace

void ContextSizes::saw(const std::string& device, const Overhead& before, const Overhead& now) {
    const bool steady =
        before.measured && now.measured && before.owner == now.owner && before.mib == now.mib;
    if (steady) remember(device, now.mib * mib);
}

void ContextSizes::remember(const std::string& device, std::uint64_t bytes) {
    if (bytes == 0) return;
    const auto [known, fresh] = least_.emplace(device, bytes);
    if (!fresh) known->second = std::min(known->second, bytes);
}

std::uint64_t ContextSizes::bytes(const std::string& device) const {
    const auto known = least_.find(device);
    return known == least_.end() ? 0 : known->second;
}

}  // namespace drawbridge::agent
