#pragma once
// The processes of a node, and whether the owner of a slot is among them.

#include "agent/share/ledger_copy.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::agent {

struct Process {
    std::uint32_t pid = 0;            ///< as the agent sees it
    std::uint32_t inner_pid = 0;      ///< in its own pid namespace
    std::uint64_t pid_namespace = 0;  ///< inode; 0: not known
    std::uint64_t start_time = 0;     ///< field 22 of its stat
    bool has_ended = false;           ///< only its exit status is left

    [[nodiscard]] bool operator==(const Process&) const = default;
};

struct ProcessTable {
    std::uint64_t own_namespace = 0;  ///< of the agent: what it sees all processes of
    std::vector<Process> processes = {};

    /// Whether all processes of that namespace would be in the table: those of the machine's first
    /// namespace see all, and so do those of a node that is itself a container (kind, k3d), by
    /// which the namespaces of its containers lie below its own. It shows in processes that have
    /// others.
    [[nodiscard]] bool sees(std::uint64_t pid_namespace) const;
};

/// unknown: it may live where the agent cannot look.
enum class OwnerState { alive, gone, unknown };

/// Whether a slot's owner lives. Never `gone` for one that might (enforcement.md 4.4): where locks
/// are missing (gVisor) or the pid namespace is none that this kernel numbered, others decide.
[[nodiscard]] OwnerState owner_state(const SlotOwner& owner, const ProcessTable& table);

/// The process that owns a slot; null where it is not in the table.
[[nodiscard]] const Process* find_owner(const SlotOwner& owner, const ProcessTable& table);

/// Fills in what `/proc/<pid>/stat` says; false where the text is none.
[[nodiscard]] bool read_stat(std::string_view text, Process& process);
/// The last number of `NSpid` in `/proc/<pid>/status`; 0 where there is none.
[[nodiscard]] std::uint32_t inner_pid_of(std::string_view status);

/// Those of these pids that a proc file system shows. Blocks.
[[nodiscard]] ProcessTable read_processes(std::span<const std::uint32_t> pids,
                                          const std::string& proc = "/proc");
/// All processes that a proc file system shows. Blocks.
[[nodiscard]] ProcessTable read_process_table(const std::string& proc = "/proc");

}  // namespace drawbridge::agent
