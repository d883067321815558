#include "server/serve.hpp"

#include "server/options.hpp"
#include "server/server_process.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <variant>

namespace drawbridge::server {
namespace {

int fail_to_start(const std::string& message, const std::string& place) {
    const std::string where = place.empty() ? "" : place + ": ";
    std::fprintf(stderr, "drawbridge serve: %s%s\n", where.c_str(), message.c_str());
    return 1;
}

}  // namespace

int run_serve(const std::vector<std::string>& arguments) {
    auto parsed = parse_options(arguments);
    if (const auto* const exit = std::get_if<ExitNow>(&parsed)) return exit->status;
    std::signal(SIGPIPE, SIG_IGN);  // a log reader that went away is no reason to end
    try {
        ServerProcess process(std::move(std::get<ServeOptions>(parsed)));
        if (const auto started = process.start(); !started) {
            return fail_to_start(started.error().message, started.error().path);
        }
        return process.run();
    } catch (const std::exception& error) {
        return fail_to_start(error.what(), "");
    }
}

}  // namespace drawbridge::server
