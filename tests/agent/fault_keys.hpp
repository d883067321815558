#pragma once
// Faults as tests compare them.

#include "agent/device/device.hpp"

#include <string>
#include <vector>

namespace drawbridge::agent {

/// The key of each fault, in order.
inline std::vector<std::string> keys(const std::vector<Fault>& faults) {
    std::vector<std::string> all;
    for (const Fault& fault : faults)
        all.push_back(fault.key);
    return all;
}

}  // namespace drawbridge::agent
