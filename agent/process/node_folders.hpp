#pragma once
// Where the agent's files and sockets lie on a node.

#include "agent/prepare/prepare_flow.hpp"
#include "agent/process/options.hpp"
#include "base/result.hpp"

#include <string>
#include <vector>

namespace drawbridge::agent {

/// Where the sockets of one instance lie.
struct SocketPaths {
    std::string service;
    std::string registration;
};

/// A word for one run of the agent, unlike those of runs before it.
[[nodiscard]] std::string new_run();

/// Names that fit into a socket's path. An instance with a name has others in each run: a kubelet
/// that finds a socket of a name that it knows takes a second longer, since it forgets the old one
/// before it asks the new one. Without a name they are those of node-agent.md 2.
[[nodiscard]] SocketPaths socket_paths(const std::string& kubelet_root, const std::string& instance,
                                       const std::string& run);

/// Name of an instance's lock; `instance` may be empty.
[[nodiscard]] std::string instance_name(const std::string& instance);

/// Removes the sockets of agents that were killed, whatever their names were, since the kubelet
/// goes on trying them; gives the paths. Dead is a socket that no running instance has as its own
/// and where nobody listens.
std::vector<std::string> remove_dead_sockets(const std::string& kubelet_root);

/// Removes what killed agents left half written; nothing while another agent runs, which may be
/// writing it. Before this one writes.
void remove_temporaries(const std::string& kubelet_root, const FlowPaths& paths);

/// The folder of everything that outlives an instance.
[[nodiscard]] std::string plugin_folder(const std::string& kubelet_root);

/// The folder with a lock for each agent that runs.
[[nodiscard]] std::string instances_folder(const std::string& kubelet_root);

/// Makes what is missing of them.
[[nodiscard]] base::Result<void> make_node_folders(const PathOptions& options,
                                                   const FlowPaths& paths);

}  // namespace drawbridge::agent
