#pragma once
// Looks at what of the node keeps containers from getting what they were given (node-agent.md 9.4,
// 13): the container runtime's CDI, foreign CDI files, other agents.

#include "agent/cdi/runtime_facts.hpp"
#include "agent/files.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace drawbridge::agent {

struct NodeCheckParts {
    Files& files;
    std::vector<std::string> runtime_sockets;  ///< of container runtimes, those that are there
    std::string cdi;                           ///< where the agent writes CDI files
    std::vector<std::string> cdi_folders;      ///< where runtimes read them
    std::string instances;                     ///< folder with a lock for each agent that runs
};

/// Any thread.
class NodeChecks {
public:
    explicit NodeChecks(NodeCheckParts parts);

    /// Looks at everything. Blocks, for two seconds at most where a runtime does not answer.
    void look();

    /// Why no share may be given out; empty: nothing is in the way.
    [[nodiscard]] std::string refusal() const;
    /// What somebody should know.
    [[nodiscard]] std::vector<std::string> remarks() const;
    [[nodiscard]] CdiState cdi() const;
    /// Agents that run on this node, this one among them.
    [[nodiscard]] std::int64_t instances() const;

private:
    [[nodiscard]] RuntimeFacts ask_runtime(const std::string& socket,
                                           std::vector<std::string>& remarks) const;
    [[nodiscard]] std::vector<CdiFile> read_cdi_files();
    [[nodiscard]] bool are_cdi_files_as_before();

    NodeCheckParts parts_;
    std::mutex looking_;  ///< one look at a time; for what is known of the last one
    std::map<std::string, std::unique_ptr<FolderWatch>> watches_;  ///< by folder with CDI files
    /// Foreign CDI files that may change while their folder tells nothing, as they were read;
    /// nothing: what that is could not be read.
    std::map<std::string, std::optional<FileStamp>> unseen_;
    std::vector<std::string> clashes_;
    mutable std::mutex mutex_;
    std::vector<RuntimeFacts> runtimes_;           ///< in the order of the sockets
    std::vector<std::optional<FileStamp>> asked_;  ///< sockets that told these facts
    unsigned looks_ = 0;
    std::vector<std::string> remarks_;
    std::int64_t instances_ = 0;
};

}  // namespace drawbridge::agent
