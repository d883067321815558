#include "agent/share/process_table.hpp"

#include "base/atomic_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <sys/stat.h>

namespace drawbridge::agent {
namespace {

// Numbers of namespaces (include/linux/proc_ns.h): the first pid namespace has the lower one,
// all that are made later begin at the other. The kernels that sandboxes bring along count from 1.
constexpr std::uint64_t first_pid_namespace = 0xEFFFFFFC;
constexpr std::uint64_t later_namespaces = 0xF0000000;
constexpr std::uint64_t highest_namespace = 0xFFFFFFFF;

constexpr std::size_t max_text = 1U << 16U;

template <class Number>
bool take_number(std::string_view text, Number& number) {
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    return code == std::errc() && end != text.data();
}

std::uint64_t inode_of(const std::string& path) {
    struct stat facts {};
    return ::stat(path.c_str(), &facts) == 0 ? facts.st_ino : 0;
}

/// Nothing where it has ended.
std::optional<Process> read_process(const std::string& proc, std::uint32_t pid) {
    Process process{.pid = pid};
    const std::string folder = fmt::format("{}/{}", proc, pid);
    const auto stat = base::read_file(folder + "/stat", max_text);
    const auto status = base::read_file(folder + "/status", max_text);
    if (!stat || !status || !read_stat(*stat, process)) return std::nullopt;
    process.inner_pid = inner_pid_of(*status);
    process.pid_namespace = inode_of(folder + "/ns/pid");
    return process;
}

bool is_same(const SlotOwner& owner, const Process& process) {
    if (process.inner_pid != owner.pid) return false;
    if (process.pid_namespace != 0 && process.pid_namespace != owner.pid_namespace) return false;
    return owner.start_time == 0 || owner.start_time == process.start_time;
}

}  // namespace

bool ProcessTable::sees(std::uint64_t pid_namespace) const {
    if (own_namespace == 0) return false;
    if (pid_namespace == own_namespace) return true;
    if (pid_namespace < later_namespaces || pid_namespace > highest_namespace) return false;
    return own_namespace == first_pid_namespace ||
           std::ranges::any_of(processes, [this](const Process& process) {
               return process.pid_namespace != 0 && process.pid_namespace != own_namespace;
           });
}

const Process* find_owner(const SlotOwner& owner, const ProcessTable& table) {
    const auto found = std::ranges::find_if(
        table.processes, [&](const Process& process) { return is_same(owner, process); });
    return found == table.processes.end() ? nullptr : &*found;
}

OwnerState owner_state(const SlotOwner& owner, const ProcessTable& table) {
    if (owner.pid == 0 || owner.without_locks || !table.sees(owner.pid_namespace))
        return OwnerState::unknown;
    const Process* found = find_owner(owner, table);
    return found == nullptr || found->has_ended ? OwnerState::gone : OwnerState::alive;
}

bool read_stat(std::string_view text, Process& process) {
    // The second field is a name in parentheses and may hold any byte; the last ')' ends it.
    std::size_t at = text.rfind(')');
    if (at == std::string_view::npos || at + 2 >= text.size()) return false;
    text.remove_prefix(at + 2);
    const char state = text.front();
    std::uint64_t threads = 0;
    for (int field = 3; field < 22; ++field) {
        if (field == 20 && !take_number(text, threads)) return false;
        at = text.find(' ');
        if (at == std::string_view::npos) return false;
        text.remove_prefix(at + 1);
    }
    // A first thread that has ended is shown as a zombie while others go on.
    process.has_ended = (state == 'Z' || state == 'X') && threads <= 1;
    return take_number(text, process.start_time);
}

std::uint32_t inner_pid_of(std::string_view status) {
    std::size_t at = status.find("\nNSpid:");
    if (at == std::string_view::npos) return 0;
    std::string_view line = status.substr(at + 1);
    line = line.substr(0, line.find('\n'));
    at = line.find_last_of("\t :");
    std::uint32_t pid = 0;
    return take_number(line.substr(at + 1), pid) ? pid : 0;
}

ProcessTable read_processes(std::span<const std::uint32_t> pids, const std::string& proc) {
    ProcessTable table{.own_namespace = inode_of(proc + "/self/ns/pid")};
    for (const std::uint32_t pid : pids) {
        if (const auto process = read_process(proc, pid)) table.processes.push_back(*process);
    }
    return table;
}

ProcessTable read_process_table(const std::string& proc) {
    std::vector<std::uint32_t> pids;
    std::error_code failure;
    std::filesystem::directory_iterator entry(proc, failure);
    for (; !failure && entry != std::filesystem::directory_iterator(); entry.increment(failure)) {
        const std::string name = entry->path().filename();
        std::uint32_t pid = 0;
        if (take_number(name, pid)) pids.push_back(pid);
    }
    ProcessTable table = read_processes(pids, proc);
    // Half a table would let the living look dead.
    if (failure) table.own_namespace = 0;
    return table;
}

}  // namespace drawbridge::agent
