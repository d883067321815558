#pragma once
// Runs a program to its end, without a shell, within bounds of time and output.

#include "base/result.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::kube::client {

struct Program {
    std::string command;  ///< a path, or a name looked up in PATH
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> environment;  ///< on top of our own
    std::chrono::milliseconds time_limit = std::chrono::seconds(30);
    std::size_t max_output = 1U << 20U;
};

/// The standard output of a program that ended with 0. Its standard input is empty; the end of its
/// standard error goes into the message of an error. Over a limit, or once `stop` is true, it is
/// killed with all of its process group. Blocks.
[[nodiscard]] base::Result<std::string> run_program(const Program& program,
                                                    const std::atomic<bool>& stop);

}  // namespace drawbridge::kube::client
