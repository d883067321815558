// The program `drawbridge`: options and exit status of each command; what they do lies in cli/ and
// server/.

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "cli/check.hpp"
#include "cli/completion.hpp"
#include "cli/explain.hpp"
#include "cli/translate_command.hpp"
#include "cli/webhook_configuration.hpp"
#include "kube/names.hpp"
#include "server/serve.hpp"
#include "translate/code.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

using namespace drawbridge;

constexpr const char* translate_footer =
    "Examples:\n"
    "  drawbridge translate -f pod.yaml --device-memory 24Gi,80Gi | kubectl apply -f -\n"
    "  kubectl get resourceslices -o yaml > fleet.yaml\n"
    "  drawbridge translate -R -f manifests/ --fleet fleet.yaml --notices json --strict\n"
    "\n"
    "Exit status: 0 clean, 1 own failure, 2 something was denied and left out, 3 warnings under "
    "--strict.";

void add_translate(CLI::App& program, cli::TranslateOptions& options, std::string& colour) {
    CLI::App* command = program.add_subcommand(
        "translate",
        "print manifests as the webhook would change them, with the templates they need");
    command->footer(translate_footer);
    command->add_option("-f,--filename", options.files, "file, folder, or - for standard input")
        ->required()
        ->allow_extra_args(false);
    command->add_flag("-R,--recursive", options.recursive,
                      "look into the folders below a folder too");
    command
        ->add_option("-n,--namespace", options.name_space,
                     "namespace of the templates of documents that name none")
        ->check([](const std::string& name) {
            return kube::is_dns_label(name) ? "" : "\"" + name + "\" is no name of a namespace";
        });
    command
        ->add_option_function<std::string>(
            "-o,--output",
            [&options](const std::string& form) {
                options.output = form == "json" ? cli::OutputForm::json : cli::OutputForm::yaml;
            },
            "yaml (default) or json: one flat v1 List")
        ->check(CLI::IsMember({"yaml", "json"}));
    command
        ->add_option_function<std::string>(
            "--notices",
            [&options](const std::string& form) {
                options.notices = form == "json" ? cli::NoticeForm::json : cli::NoticeForm::text;
            },
            "text (default) or json: one object a line")
        ->check(CLI::IsMember({"text", "json"}));
    command->add_option("--settings", options.settings,
                        "settings file, or HAMi's device-config.yaml");
    CLI::Option* fleet =
        command->add_option("--fleet", options.fleet, "ResourceSlices as kubectl prints them");
    command
        ->add_option("--device-memory", options.device_memory,
                     "memory sizes of the fleet's devices, for example 24Gi,80Gi, where the "
                     "settings name none")
        ->excludes(fleet);
    command->add_option("--kubernetes-version", options.kubernetes_version,
                        "version of the API server (default 1.36)");
    command->add_flag("--strict", options.strict, "exit with status 3 if there are warnings");
    command->add_option("--colour,--color", colour, "auto (default), always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}));
}

bool wants_colour(const std::string& choice) {
    if (choice != "auto") return choice == "always";
    const char* none = std::getenv("NO_COLOR");
    return isatty(STDERR_FILENO) != 0 && (none == nullptr || *none == '\0');
}

int translate_command(cli::TranslateOptions options, const std::string& colour) {
    options.colour = wants_colour(colour);
    const cli::CommandResult result = cli::run_translate(options);
    std::cerr << result.notices << std::flush;
    std::cout << result.output << std::flush;
    if (std::cout.good()) return result.status;
    std::cerr << "drawbridge: standard output cannot be written\n";
    return 1;
}

/// Prints a text, or why there is none; the exit status.
int print(const base::Result<std::string>& text) {
    if (!text) {
        std::cerr << "drawbridge: " << text.error().message << "\n";
        return 1;
    }
    std::cout << *text << std::flush;
    return std::cout.good() ? 0 : 1;
}

int explain_command(const std::string& code, bool markdown) {
    if (markdown) return print(cli::codes_markdown());
    return print(code.empty() ? cli::list_codes() : cli::explain_code(code));
}

void add_check(CLI::App& program, cli::CheckOptions& options) {
    CLI::App* command = program.add_subcommand(
        "check", "can this cluster do it, and if not, what is missing; writes nothing");
    command->add_option("--kubeconfig", options.kubeconfig,
                        "credentials (default: KUBECONFIG, the pod's own, ~/.kube/config)");
    command->add_option("--context", options.context, "context in it");
    command->add_option("--settings", options.settings,
                        "settings file, or HAMi's device-config.yaml");
    command->add_option("--namespace", options.name_space, "where the webhook is")
        ->capture_default_str();
    command->add_option("--account", options.account, "the webhook's service account")
        ->capture_default_str();
    command->add_flag("--json", options.json, "one JSON object a line");
    command->footer("Exit status: 0 all there, 1 own failure, 2 something is missing.");
}

int check_command(const cli::CheckOptions& options) {
    const auto findings = cli::run_check(options);
    std::cout << cli::write_findings(findings, options.json) << std::flush;
    return std::cout.good() ? cli::check_status(findings) : 1;
}

void add_webhook(CLI::App& program, cli::WebhookOptions& options) {
    CLI::App* command = program.add_subcommand(
        "webhook", "print the MutatingWebhookConfiguration that belongs to the settings");
    command->add_option("--settings", options.settings,
                        "settings file, or HAMi's device-config.yaml");
    command->add_option("--ca-bundle", options.ca_bundle,
                        "authorities (PEM) that the webhook's certificate is from");
    command->add_option("--namespace", options.name_space, "where the webhook's service is")
        ->capture_default_str();
    command->add_option("--service", options.service, "the webhook's service")
        ->capture_default_str();
    command->footer("Example:\n  drawbridge webhook --ca-bundle ca.crt | kubectl apply -f -");
}

/// What shells complete: every command with its options.
std::vector<cli::CommandWords> command_words(const CLI::App& program) {
    std::vector<cli::CommandWords> all;
    for (const CLI::App* command : program.get_subcommands({})) {
        cli::CommandWords words{command->get_name(), command->get_description(), {}, {}};
        for (const CLI::Option* option : command->get_options()) {
            for (const std::string& name : option->get_lnames())
                words.options.push_back("--" + name);
        }
        if (words.name == "completion") words.arguments = {"bash", "zsh", "fish"};
        if (words.name == "explain") {
            for (const auto& code : translate::all_codes())
                words.arguments.emplace_back(code.name);
        }
        all.push_back(std::move(words));
    }
    return all;
}

bool is_command(const CLI::App& program, std::string_view name) {
    const auto commands = program.get_subcommands({});
    return std::ranges::find(commands, name, [](const CLI::App* command) {
               return command->get_name();
           }) != commands.end();
}

int unknown_command(const CLI::App& program, std::string_view name) {
    constexpr std::size_t longest = 64;
    name = name.substr(0, longest);
    const auto commands = program.get_subcommands({});
    const auto nearest = std::ranges::min_element(commands, {}, [&](const CLI::App* command) {
        return base::edit_distance(command->get_name(), name);
    });
    std::string quoted;
    base::append_json_string(quoted, name);
    std::cerr << "drawbridge: unknown command " << quoted << "; did you mean \""
              << (*nearest)->get_name() << "\"? (drawbridge --help lists all)\n";
    return 1;
}

int run(int count, char** arguments) {
    if (count > 1 && std::string(arguments[1]) == "serve") {
        return server::run_serve({arguments + 2, arguments + count});
    }
    CLI::App program("Old GPU manifests on clusters with Dynamic Resource Allocation.",
                     "drawbridge");
    program.set_version_flag("--version", "drawbridge " + std::string(base::version));
    program.require_subcommand(1);
    cli::TranslateOptions translate;
    std::string colour = "auto";
    add_translate(program, translate, colour);
    program.add_subcommand("serve",
                           "answer admission reviews over HTTPS (drawbridge serve --help)");
    cli::WebhookOptions webhook;
    add_webhook(program, webhook);
    cli::CheckOptions check;
    add_check(program, check);
    std::string code;
    bool markdown = false;
    CLI::App* explain = program.add_subcommand("explain", "what a code means, and what to do");
    explain->add_option("code", code, "a code; without one all are listed");
    explain->add_flag("--markdown", markdown, "print docs/codes.md");
    explain->footer("Examples:\n  drawbridge explain\n  drawbridge explain memory-unit");
    std::string shell;
    CLI::App* completion =
        program.add_subcommand("completion", "print a script that completes words in a shell");
    completion->add_option("shell", shell, "bash, zsh or fish")->required();
    completion->footer("Example:\n  source <(drawbridge completion bash)");
    if (count > 1 && arguments[1][0] != '-' && !is_command(program, arguments[1])) {
        return unknown_command(program, arguments[1]);
    }
    try {
        program.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return program.exit(error) == 0 ? 0 : 1;
    }
    if (program.got_subcommand("check")) return check_command(check);
    if (program.got_subcommand("webhook")) return print(cli::webhook_configuration(webhook));
    if (completion->parsed()) return print(cli::completion_script(shell, command_words(program)));
    return explain->parsed() ? explain_command(code, markdown)
                             : translate_command(translate, colour);
}

}  // namespace

int main(int count, char** arguments) {
    try {
        return run(count, arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "drawbridge: %s\n", error.what());
        return 1;
    }
}
