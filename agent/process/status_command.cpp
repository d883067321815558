#include "agent/process/status_command.hpp"

#include "agent/node_status.hpp"
#include "agent/process/address.hpp"
#include "base/command_line.hpp"
#include "base/result.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>

#include <iostream>
#include <iterator>
#include <string>

namespace drawbridge::agent {
namespace {

using base::Result;

constexpr std::chrono::seconds patience{20};

/// The body of `/status`, over a connection that the agent closes behind it.
Result<std::string> fetch(const std::string& address) {
    const auto endpoint = parse_endpoint(address);
    if (!endpoint) return tl::unexpected(endpoint.error());
    boost::asio::ip::tcp::iostream stream;
    stream.expires_after(patience);
    stream.connect(*endpoint);
    stream << "GET /status HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n" << std::flush;
    const std::string answer{std::istreambuf_iterator<char>(stream), {}};
    const std::size_t head = answer.find("\r\n\r\n");
    if (head == std::string::npos) {
        return base::fail(
            base::ErrorKind::unavailable,
            fmt::format("no agent answers at {}: {}", address, stream.error().message()));
    }
    const std::string body = answer.substr(head + 4);
    if (!answer.starts_with("HTTP/1.1 200 "))
        return base::fail(base::ErrorKind::unavailable, fmt::format("the agent says: {}", body));
    return body;
}

}  // namespace

int run_status(int count, char** arguments) {
    CLI::App app("print devices, shares, owners and usage of this node", "drawbridge-agent status");
    bool json = false;
    std::string address = "127.0.0.1:8082";
    base::add_choice<bool>(app, "-o,--output", json, {{"table", false}, {"json", true}},
                           "form of the output (default table)");
    app.add_option("--operator", address, "operator port of the agent (default 127.0.0.1:8082)");
    base::refuse_empty_values(app);
    app.footer("Example:\n  kubectl exec -n drawbridge-agent AGENT-POD -- drawbridge-agent status");
    try {
        app.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return base::exit_status(app, error);
    }
    auto text = fetch(address);
    if (text && !json) text = status_table(*text);
    if (!text) {
        std::cerr << "drawbridge-agent: " << text.error().message << '\n';
        return 1;
    }
    return base::print_output("drawbridge-agent", *text);
}

}  // namespace drawbridge::agent
