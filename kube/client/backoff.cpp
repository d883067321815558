#include "kube/client/backoff.hpp"

#include <algorithm>

namespace drawbridge::kube::client {

std::chrono::milliseconds backoff(int failures, double random) {
    constexpr long long first_ms = 500;
    constexpr long long most_ms = 30'000;
    const int doublings = std::clamp(failures - 1, 0, 6);
    const auto whole = static_cast<double>(std::min(most_ms, first_ms << doublings));
    const double share = 0.5 + 0.5 * std::clamp(random, 0.0, 1.0);
    return std::chrono::milliseconds(static_cast<long long>(whole * share));
}

}  // namespace drawbridge::kube::client
