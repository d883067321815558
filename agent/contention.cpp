#include "agent/contention.hpp"

#include <map>

namespace drawbridge::agent {

bool is_active(const Neighbour& share) {
    return share.worked || (!share.has_limit && share.has_process);
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

}  // namespace drawbridge::agent
