// The program `drawbridge-agent`: options, start, and the exit status.

#include "agent/process/agent_process.hpp"
#include "agent/process/options.hpp"
#include "agent/process/status_command.hpp"
#include "agent/process/top_command.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <malloc.h>
#include <string_view>
#include <variant>

namespace {

using namespace drawbridge;

int run(int count, char** arguments) {
    if (count > 1 && std::string_view(arguments[1]) == "status")
        return agent::run_status(count - 1, arguments + 1);
    if (count > 1 && std::string_view(arguments[1]) == "top")
        return agent::run_top(count - 1, arguments + 1);
    auto options = agent::parse_options(count, arguments);
    if (const auto* now = std::get_if<agent::ExitNow>(&options)) return now->status;
    agent::AgentProcess process(std::get<agent::AgentOptions>(std::move(options)));
    if (const auto started = process.start(); !started) {
        const base::Error& error = started.error();
        std::fprintf(stderr, "drawbridge-agent: %s%s%s\n", error.path.c_str(),
                     error.path.empty() ? "" : ": ", error.message.c_str());
        return EXIT_FAILURE;
    }
    return process.run();
}

}  // namespace

int main(int count, char** arguments) {
    // A dozen threads, most of which sleep: heaps of their own keep what a busy minute took, and a
    // threshold that adapts keeps the pages of each ledger that was made.
    ::mallopt(M_ARENA_MAX, 1);
    ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
    try {
        return run(count, arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "drawbridge-agent: %s\n", error.what());
        return EXIT_FAILURE;
    }
}
