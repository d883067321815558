// The program `drawbridge`: options and exit status of each command; what they do lies in cli/ and
// server/.

#include "base/command_line.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "cli/check.hpp"
#include "cli/completion.hpp"
#include "cli/explain.hpp"
#include "cli/notices.hpp"
#include "cli/translate_command.hpp"
#include "cli/webhook_configuration.hpp"
#include "kube/name_rules.hpp"
#include "server/options.hpp"
#include "server/serve.hpp"
#include "translate/code.hpp"

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

constexpr std::string_view program_name = "drawbridge";

enum class Colour { automatic, always, never };

/// What the arguments of all commands say but `serve`, which reads its own.
struct Arguments {
    cli::TranslateOptions translate;
    Colour colour = Colour::automatic;
    cli::WebhookOptions webhook;
    cli::CheckOptions check;
    std::string code;
    bool markdown = false;
    std::string shell;
};

constexpr const char* translate_footer =
    "Examples:\n"
    "  drawbridge translate -f pod.yaml --device-memory 24Gi,80Gi | kubectl apply -f -\n"
    "  kubectl get resourceslices -o yaml > fleet.yaml\n"
    "  drawbridge translate -R -f manifests/ --fleet fleet.yaml --notices json --strict\n"
    "\n"
    "Exit status: 0 clean, 1 own failure, 2 something was denied and left out, 3 warnings under "
    "--strict.";

std::string check_namespace(const std::string& name) {
    return kube::is_dns_label(name) ? "" : "\"" + name + "\" is no name of a namespace";
}

std::string check_service(const std::string& name) {
    return kube::is_dns_label(name) ? "" : "\"" + name + "\" is no name of a service";
}

void add_settings(CLI::App& command, std::string& settings) {
    command.add_option("--settings", settings, "settings file, or HAMi's device-config.yaml");
}

void add_translate(CLI::App& program, Arguments& arguments) {
    cli::TranslateOptions& options = arguments.translate;
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
        ->check(check_namespace);
    base::add_choice<cli::OutputForm>(
        *command, "-o,--output", options.output,
        {{"yaml", cli::OutputForm::yaml}, {"json", cli::OutputForm::json}},
        "form of the output (default yaml); json is one flat v1 List");
    base::add_choice<cli::NoticeForm>(
        *command, "--notices", options.notices,
        {{"text", cli::NoticeForm::text}, {"json", cli::NoticeForm::json}},
        "form of the notices (default text); json is one object a line");
    add_settings(*command, options.settings);
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
    base::add_choice<Colour>(
        *command, "--colour,--color", arguments.colour,
        {{"auto", Colour::automatic}, {"always", Colour::always}, {"never", Colour::never}},
        "colour of the notices (default auto)");
}

bool wants_colour(Colour choice) {
    if (choice != Colour::automatic) return choice == Colour::always;
    const char* none = std::getenv("NO_COLOR");
    return isatty(STDERR_FILENO) != 0 && (none == nullptr || *none == '\0');
}

int translate_command(const Arguments& arguments) {
    cli::TranslateOptions options = arguments.translate;
    options.colour = wants_colour(arguments.colour);
    const cli::CommandResult result = cli::run_translate(options);
    std::cerr << result.notices << std::flush;
    return base::print_output(program_name, result.output, result.status);
}

int failed(const base::Error& error) {
    cli::Notices notices(cli::NoticeForm::text, false);
    notices.failure(error);
    std::cerr << notices.text();
    return 1;
}

/// Prints a text, or why there is none; the exit status.
int print(const base::Result<std::string>& text) {
    return text ? base::print_output(program_name, *text) : failed(text.error());
}

int explain_command(const Arguments& arguments) {
    if (arguments.markdown) return print(cli::codes_markdown());
    return print(arguments.code.empty() ? cli::list_codes() : cli::explain_code(arguments.code));
}

void add_check(CLI::App& program, cli::CheckOptions& options) {
    CLI::App* command = program.add_subcommand(
        "check", "can this cluster do it, and if not, what is missing; writes nothing");
    command->add_option("--kubeconfig", options.kubeconfig,
                        "credentials (default: KUBECONFIG, the pod's own, ~/.kube/config)");
    command->add_option("--context", options.context, "context in it");
    add_settings(*command, options.settings);
    command->add_option("--namespace", options.name_space, "where the webhook is")
        ->capture_default_str()
        ->check(check_namespace);
    command->add_option("--account", options.account, "the webhook's service account")
        ->capture_default_str();
    command->add_flag("--json", options.json, "one JSON object a line");
    command->footer("Exit status: 0 all there, 1 own failure, 2 something is missing.");
}

int check_command(const cli::CheckOptions& options) {
    const auto findings = cli::run_check(options);
    if (!findings) return failed(findings.error());
    return base::print_output(program_name, cli::write_findings(*findings, options.json),
                              cli::check_status(*findings));
}

void add_webhook(CLI::App& program, cli::WebhookOptions& options) {
    CLI::App* command = program.add_subcommand(
        "webhook", "print the MutatingWebhookConfiguration that belongs to the settings");
    add_settings(*command, options.settings);
    command->add_option("--ca-bundle", options.ca_bundle,
                        "authorities (PEM) that the webhook's certificate is from");
    command->add_option("--namespace", options.name_space, "where the webhook's service is")
        ->capture_default_str()
        ->check(check_namespace);
    command->add_option("--service", options.service, "the webhook's service")
        ->capture_default_str()
        ->check(check_service);
    command->footer("Example:\n  drawbridge webhook --ca-bundle ca.crt | kubectl apply -f -");
}

void add_explain(CLI::App& program, Arguments& arguments) {
    CLI::App* command = program.add_subcommand("explain", "what a code means, and what to do");
    command->add_option("code", arguments.code, "a code; without one all are listed");
    command->add_flag("--markdown", arguments.markdown, "print docs/codes.md");
    command->footer("Examples:\n  drawbridge explain\n  drawbridge explain memory-unit");
}

void add_completion(CLI::App& program, std::string& shell) {
    CLI::App* command =
        program.add_subcommand("completion", "print a script that completes words in a shell");
    command->add_option("shell", shell, "bash, zsh or fish")->required();
    command->footer("Example:\n  source <(drawbridge completion bash)");
}

cli::OptionWords option_words(const CLI::Option& option) {
    cli::OptionWords words;
    for (const std::string& name : option.get_lnames())
        words.names.push_back("--" + name);
    for (const std::string& name : option.get_snames())
        words.names.push_back("-" + name);
    words.takes_value = option.get_items_expected_max() > 0;
    words.values = base::choices_of(option);
    return words;
}

cli::CommandWords command_words(const CLI::App& command) {
    cli::CommandWords words{command.get_name(), command.get_description(), {}, {}};
    for (const CLI::Option* option : command.get_options()) {
        if (!option->get_positional()) words.options.push_back(option_words(*option));
    }
    if (words.name == "completion") words.arguments = {"bash", "zsh", "fish"};
    if (words.name == "explain") {
        for (const auto& code : translate::all_codes())
            words.arguments.emplace_back(code.name);
    }
    return words;
}

/// What shells complete: every command with its options.
std::vector<cli::CommandWords> all_words(const CLI::App& program) {
    std::vector<cli::CommandWords> all;
    for (const CLI::App* command : program.get_subcommands({})) {
        if (command->get_name() != "serve") {
            all.push_back(command_words(*command));
            continue;
        }
        CLI::App serve(command->get_description(), "serve");
        server::ServeOptions options;
        server::add_options(serve, options);
        all.push_back(command_words(serve));
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
                     std::string(program_name));
    program.set_version_flag("--version", "drawbridge " + std::string(base::version));
    program.require_subcommand(1);
    Arguments read;
    add_translate(program, read);
    program.add_subcommand("serve",
                           "answer admission reviews over HTTPS (drawbridge serve --help)");
    add_webhook(program, read.webhook);
    add_check(program, read.check);
    add_explain(program, read);
    add_completion(program, read.shell);
    base::refuse_empty_values(program);
    if (count > 1 && arguments[1][0] != '-' && !is_command(program, arguments[1])) {
        return unknown_command(program, arguments[1]);
    }
    try {
        program.parse(count, arguments);
    } catch (const CLI::ParseError& error) {
        return base::exit_status(program, error);
    }
    if (program.got_subcommand("check")) return check_command(read.check);
    if (program.got_subcommand("webhook")) return print(cli::webhook_configuration(read.webhook));
    if (program.got_subcommand("completion"))
        return print(cli::completion_script(read.shell, all_words(program)));
    return program.got_subcommand("explain") ? explain_command(read) : translate_command(read);
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
