#include "agent/share/wakefulness.hpp"

#include <algorithm>

namespace drawbridge::agent {

void Wakefulness::list(const std::vector<std::string>& shares) {
    std::erase_if(states_, [&](const auto& entry) {
        return std::ranges::find(shares, entry.first) == shares.end();
    });
    for (const std::string& share : shares)
        states_.try_emplace(share);
}

void Wakefulness::wake(const std::string& share) {
    if (const auto found = states_.find(share); found != states_.end()) found->second.due = true;
}

void Wakefulness::opened(const std::string& share, std::uint64_t now_ns) {
    if (const auto found = states_.find(share); found != states_.end())
        found->second.until_ns = now_ns + linger_ns;
}

void Wakefulness::looked(const std::string& share, bool has_process, std::uint64_t now_ns) {
    const auto found = states_.find(share);
    if (found == states_.end()) return;
    found->second.due = false;
    if (has_process) found->second.until_ns = now_ns + linger_ns;
}

std::vector<std::string> Wakefulness::awake(std::uint64_t now_ns) const {
    std::vector<std::string> found;
    for (const auto& [share, state] : states_) {
        if (state.due || now_ns < state.until_ns) found.push_back(share);
    }
    return found;
}

std::vector<std::string> Wakefulness::all() const {
    std::vector<std::string> found;
    for (const auto& [share, state] : states_)
        found.push_back(share);
    return found;
}

}  // namespace drawbridge::agent
