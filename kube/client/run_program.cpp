#include "kube/client/run_program.hpp"

#include "base/descriptor.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <optional>
#include <poll.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace drawbridge::kube::client {

using base::Descriptor;
using base::ErrorKind;
using base::Result;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t longest_complaint = 500;

struct Pipe {
    Descriptor read;
    Descriptor write;

    [[nodiscard]] bool open() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
        read.reset(ends[0]);
        write.reset(ends[1]);
        return ::fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
    }
};

/// Our environment with the program's variables on top, as execve takes it.
std::vector<std::string> environment_of(const Program& program) {
    std::map<std::string, std::string, std::less<>> merged;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos) continue;
        merged[std::string(text.substr(0, equals))] = text.substr(equals + 1);
    }
    for (const auto& [name, value] : program.environment)
        merged[name] = value;
    std::vector<std::string> out;
    out.reserve(merged.size());
    for (const auto& [name, value] : merged)
        out.push_back(fmt::format("{}={}", name, value));
    return out;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> out;
    out.reserve(texts.size() + 1);
    for (std::string& text : texts)
        out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

/// Starts the program in a process group of its own; the pid, or the number of the failure negated.
pid_t spawn(const Program& program, const Pipe& output, const Pipe& complaints) {
    std::vector<std::string> arguments = program.arguments;
    arguments.insert(arguments.begin(), program.command);
    std::vector<std::string> environment = environment_of(program);

    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output.write.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, complaints.write.get(), STDERR_FILENO);
    posix_spawnattr_t attributes{};
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    sigset_t usual;  // a server ignores SIGPIPE; the program must not inherit that
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    pid_t pid = -1;
    const int failure =
        ::posix_spawnp(&pid, program.command.c_str(), &actions, &attributes,
                       pointers_to(arguments).data(), pointers_to(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failure == 0 ? pid : -failure;
}

/// Appends what can be read now; false at the end of the pipe.
bool drain(const Descriptor& from, std::string& into) {
    std::array<char, 16384> piece{};
    while (true) {
        const ssize_t count = ::read(from.get(), piece.data(), piece.size());
        if (count > 0) {
            into.append(piece.data(), static_cast<std::size_t>(count));
            return true;
        }
        if (count == 0) return false;
        if (errno != EINTR) return errno == EAGAIN;
    }
}

struct Outcome {
    std::string output;
    std::string complaints;
    std::string broken;  ///< why the program was cut off; empty: it was not
};

/// Reads both pipes to their ends, within the limits.
Outcome listen(const Program& program, Pipe& output, Pipe& complaints,
               const std::atomic<bool>& stop) {
    constexpr std::chrono::milliseconds look_at_stop(100);
    const auto deadline = steady_clock::now() + program.time_limit;
    Outcome outcome;
    while (output.read.get() >= 0 || complaints.read.get() >= 0) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
        if (stop) outcome.broken = "was stopped with this process";
        if (left.count() <= 0) {
            outcome.broken =
                fmt::format("did not end within {} s",
                            std::chrono::ceil<std::chrono::seconds>(program.time_limit).count());
        }
        if (outcome.output.size() > program.max_output) outcome.broken = "printed too much";
        if (!outcome.broken.empty()) break;
        std::array<pollfd, 2> wanted = {pollfd{output.read.get(), POLLIN, 0},
                                        pollfd{complaints.read.get(), POLLIN, 0}};
        ::poll(wanted.data(), wanted.size(),
               static_cast<int>(std::min(left, look_at_stop).count()));
        if (wanted[0].revents != 0 && !drain(output.read, outcome.output)) output.read.reset();
        if (wanted[1].revents != 0 && !drain(complaints.read, outcome.complaints))
            complaints.read.reset();
        if (outcome.complaints.size() > 2 * longest_complaint) {
            outcome.complaints.erase(0, outcome.complaints.size() - longest_complaint);
        }
    }
    return outcome;
}

/// Waits for the program, which is killed if it does not end though it has closed its output.
int reap(pid_t pid, bool kill_now, std::chrono::milliseconds patience) {
    const auto deadline = steady_clock::now() + patience;
    int status = 0;
    while (true) {
        if (kill_now || steady_clock::now() >= deadline) {
            ::kill(-pid, SIGKILL);
            while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
            }
            return status;
        }
        const pid_t ended = ::waitpid(pid, &status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR)) return status;
        ::poll(nullptr, 0, 5);
    }
}

std::string tail_of(std::string text) {
    if (text.size() > longest_complaint) text.erase(0, text.size() - longest_complaint);
    for (char& c : text) {
        if (static_cast<unsigned char>(c) < 0x20U || c == 0x7F) c = ' ';
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
}

}  // namespace

Result<std::string> run_program(const Program& program, const std::atomic<bool>& stop) {
    const auto complain = [&](std::string_view what) {
        return base::fail(ErrorKind::unavailable, fmt::format("{} {}", program.command, what),
                          program.command);
    };
    Pipe output;
    Pipe complaints;
    if (!output.open() || !complaints.open()) return complain("cannot be started: no pipe");
    const pid_t pid = spawn(program, output, complaints);
    if (pid < 0) return complain(fmt::format("cannot be started: {}", std::strerror(-pid)));
    output.write.reset();
    complaints.write.reset();

    Outcome outcome = listen(program, output, complaints, stop);
    const int status = reap(pid, !outcome.broken.empty(), std::chrono::seconds(2));
    if (!outcome.broken.empty()) return complain(outcome.broken);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::move(outcome.output);
    const std::string said = tail_of(std::move(outcome.complaints));
    return complain(WIFEXITED(status) ? fmt::format("ended with {}{}{}", WEXITSTATUS(status),
                                                    said.empty() ? "" : ": ", said)
                                      : fmt::format("was ended by signal {}", WTERMSIG(status)));
}

}  // namespace drawbridge::kube::client
