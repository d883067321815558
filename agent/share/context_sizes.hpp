#pragma once
// What one context takes of each GPU, learnt from the processes that have one (enforcement.md 4.3:
// `context_bytes`). Pure.

#include "agent/share/device_processes.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace drawbridge::agent {

/// The least that any process was measured with beside its allocations: all have a context, and
/// none has less. With modules and further contexts it is more, which the measure of each tells.
class ContextSizes {
public:
    /// Two looks at a process in a row. What is still being set up is another figure at each.
    void saw(const std::string& device, const Overhead& before, const Overhead& now);
    /// What an earlier agent had learnt of the device.
    void remember(const std::string& device, std::uint64_t bytes);
    /// Bytes; 0 where nothing is known yet.
    [[nodiscard]] std::uint64_t bytes(const std::string& device) const;
    [[nodiscard]] bool operator==(const ContextSizes&) const = default;

private:
    std::map<std::string, std::uint64_t> least_;  ///< bytes, by device
};

}  // namespace drawbridge::agent
