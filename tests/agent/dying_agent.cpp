// `drawbridge-agent` for tests: it kills itself before the step that the file DYING_AGENT names,
// and removes that file first, so that it dies once. What follows is the process as it is shipped.

#include "agent/process/agent_process.hpp"
#include "agent/process/options.hpp"
#include "base/atomic_file.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>
#include <variant>

using namespace drawbridge;

namespace {

void die_at(std::string_view step) {
    const char* file = std::getenv("DYING_AGENT");
    if (file == nullptr) return;
    constexpr std::size_t longest = 64;
    if (base::read_file(file, longest).value_or("") != step) return;
    if (::unlink(file) == 0) ::kill(::getpid(), SIGKILL);
}

}  // namespace

int main(int count, char** arguments) {
    auto options = agent::parse_options(count, arguments);
    if (const auto* now = std::get_if<agent::ExitNow>(&options)) return now->status;
    auto& chosen = std::get<agent::AgentOptions>(options);
    chosen.step = die_at;
    agent::AgentProcess process(std::move(chosen));
    if (const auto started = process.start(); !started) {
        std::fprintf(stderr, "%s\n", started.error().message.c_str());
        return EXIT_FAILURE;
    }
    return process.run();
}
