#include "agent/process/status_command.hpp"

#include "agent/process/operator_client.hpp"
#include "agent/report/node_status.hpp"
#include "base/command_line.hpp"

#include <iostream>
#include <string>

namespace drawbridge::agent {

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
    auto text = fetch_page(address, "/status");
    if (text && !json) text = status_table(*text);
    if (!text) {
        std::cerr << "drawbridge-agent: " << text.error().message << '\n';
        return 1;
    }
    return base::print_output("drawbridge-agent", *text);
}

}  // namespace drawbridge::agent
