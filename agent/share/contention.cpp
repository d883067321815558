#include "agent/share/contention.hpp"

#include <algorithm>
#include <map>

namespace drawbridge::agent {

bool is_active(const Neighbour& share) {
    if (share.worked) return true;
    return share.gpu_busy ? *share.gpu_busy : !share.has_limit && share.has_process;
}

std::size_t count_active(std::span<const Neighbour> shares, const std::string& device) {
    return static_cast<std::size_t>(std::ranges::count_if(shares, [&](const Neighbour& share) {
        return share.device == device && is_active(share);
    }));
}

std::vector<std::size_t> contended(std::span<const Neighbour> shares) {
    std::map<std::string, std::size_t> active;  // by device
    for (const Neighbour& share : shares) {
        if (is_active(share)) ++active[share.device];
    }
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const auto count = active.find(shares[i].device);
        if (count == active.end()) continue;
        const std::size_t others = count->second - (is_active(shares[i]) ? 1 : 0);
        if (others > 0) found.push_back(i);
    }
    return found;
}

std::vector<std::size_t> outranked(std::span<const Neighbour> shares) {
    std::map<std::string, std::uint32_t> highest;  // that works, by device
    for (const Neighbour& share : shares) {
        if (!share.worked && !share.gpu_busy.value_or(false)) continue;
        const auto [known, fresh] = highest.emplace(share.device, share.priority);
        if (!fresh) known->second = std::min(known->second, share.priority);
    }
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const auto top = highest.find(shares[i].device);
        if (top != highest.end() && top->second < shares[i].priority) found.push_back(i);
    }
    return found;
}

bool PauseGuard::look(bool is_outranked, std::uint64_t now_ns, const PauseTimes& times) {
    constexpr std::uint64_t second = 1'000'000'000;
    if (!is_outranked || now_ns < free_until_ns_) {
        since_ns_.reset();
        return false;
    }
    if (!since_ns_) since_ns_ = now_ns;
    if (now_ns - *since_ns_ < static_cast<std::uint64_t>(times.longest) * second) return true;
    free_until_ns_ = now_ns + static_cast<std::uint64_t>(times.free) * second;
    since_ns_.reset();
    return false;
}

}  // namespace drawbridge::agent
