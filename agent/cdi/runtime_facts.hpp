#pragma once
// Whether what a claim was given can reach its containers: what the container runtime says of
// itself, and CDI files that get in the way. Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

/// off: containers start without what CDI files give them, and nobody is told (node-agent.md 9.4).
enum class CdiState { unknown, on, off };

struct RuntimeFacts {
    CdiState cdi = CdiState::unknown;
    std::string reason = {};  ///< for off: what is wrong and what to do
};

/// Reads a runtime's configuration as its CRI status shows it (`info["config"]` of containerd and
/// CRI-O, JSON of no fixed form), for an agent that writes into `cdi_folder`. What does not tell is
/// unknown: containerd before 1.7.
[[nodiscard]] RuntimeFacts read_runtime_config(std::string_view json, std::string_view cdi_folder);

/// Of all runtimes of a node, one of which is the kubelet's: each that tells must have CDI on.
[[nodiscard]] RuntimeFacts worst_of(const std::vector<RuntimeFacts>& runtimes);

/// A file in a folder that runtimes read CDI files from.
struct CdiFile {
    std::string path = {};
    std::string text = {};
};

/// Files that name devices of our kind and are not ours (by name): a device that two files have
/// cannot be resolved, and one that only a foreign file has is not ours to answer for. One text for
/// each.
[[nodiscard]] std::vector<std::string> cdi_clashes(const std::vector<CdiFile>& files);

}  // namespace drawbridge::agent
