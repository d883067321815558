#include "server/serve.hpp"

#include "server/options.hpp"
#include "server/server_process.hpp"

#include <csignal>
#include <cstdio>
#include <exception>
#include <string>
#include <sys/resource.h>
#include <utility>
#include <variant>

namespace drawbridge::server {
namespace {

int fail_to_start(const std::string& message, const std::string& place) {
    const std::string where = place.empty() ? "" : place + ": ";
    std::fprintf(stderr, "drawbridge serve: %s%s\n", where.c_str(), message.c_str());
    return 1;
}

/// A connection is a file; most systems allow a process more than it has at first.
void allow_many_files() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

}  // namespace

int run_serve(const std::vector<std::string>& arguments) {
    auto parsed = parse_options(arguments);
    if (const auto* const exit = std::get_if<ExitNow>(&parsed)) return exit->status;
    std::signal(SIGPIPE, SIG_IGN);  // a log reader that went away is no reason to end
    allow_many_files();
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
