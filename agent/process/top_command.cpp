#include "agent/process/top_command.hpp"

#include "agent/process/operator_client.hpp"
#include "agent/report/top_view.hpp"
#include "base/command_line.hpp"
#include "base/result.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <iostream>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

namespace drawbridge::agent {
namespace {

namespace asio = boost::asio;
using base::Result;

// Control sequences of ECMA-48, and the other screen that xterm and all that follow it have.
constexpr std::string_view enter_screen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view leave_screen = "\x1b[?25h\x1b[?1049l";
constexpr std::string_view draw_anew = "\x1b[H\x1b[J";

struct TopOptions {
    bool json = false;
    bool once = false;
    std::string address = "127.0.0.1:8082";
    unsigned interval = 2;  ///< seconds
};

Result<std::string> view_of(const TopOptions& options) {
    auto status = fetch_page(options.address, "/status");
    return status && !options.json ? top_view(*status) : status;
}

/// A failure is shown in place of the view: an agent that is updated is away for a moment.
void draw(const Result<std::string>& view) {
    winsize size{};
    static_cast<void>(::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size));
    const std::string text = view ? *view : view.error().message + "\n";
    // The cursor stands in the line behind the last one.
    const std::size_t rows = size.ws_row > 1 ? size.ws_row - 1U : 0;
    std::cout << draw_anew << fit_screen(text, rows, size.ws_col) << std::flush;
}

/// Until a signal.
void redraw(const TopOptions& options) {
    asio::io_context io{1};
    asio::steady_timer timer(io);
    asio::signal_set signals(io, SIGINT, SIGTERM, SIGHUP);
    signals.async_wait([&](const boost::system::error_code&, int) { io.stop(); });
    std::function<void()> round = [&] {
        draw(view_of(options));
        if (!std::cout) return io.stop();
        timer.expires_after(std::chrono::seconds(options.interval));
        timer.async_wait([&](const boost::system::error_code& error) {
            if (!error) round();
        });
    };
    std::cout << enter_screen;
    round();
    io.run();
    std::cout << leave_screen << std::flush;
}

void add_options(CLI::App& app, TopOptions& options) {
    base::add_choice<bool>(app, "-o,--output", options.json, {{"table", false}, {"json", true}},
                           "form of the output (default table); json is printed once");
    app.add_flag("--once", options.once, "print once, also on a terminal");
    app.add_option("--interval", options.interval, "seconds from one look to the next (default 2)")
        ->check(CLI::Range(1U, 3600U));
    app.add_option("--operator", options.address,
                   "operator port of the agent (default 127.0.0.1:8082)");
    base::refuse_empty_values(app);
    app.footer(
        "Example:\n  kubectl exec -it -n drawbridge-agent AGENT-POD -- drawbridge-agent top");
}

}  // namespace

int run_top(int count, char** arguments) {
    CLI::App app("show what the shares of this node use and do", "drawbridge-agent top");
    TopOptions options;
    add_options(app, options);
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return base::exit_status(app, error);
    }
    const auto first = view_of(options);
    if (!first) {
        std::cerr << "drawbridge-agent: " << first.error().message << '\n';
        return 1;
    }
    if (options.once || options.json || ::isatty(STDOUT_FILENO) == 0)
        return base::print_output("drawbridge-agent", *first);
    redraw(options);
    return 0;
}

}  // namespace drawbridge::agent
