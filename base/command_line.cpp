#include "base/command_line.hpp"

#include <iostream>
#include <sstream>

namespace drawbridge::base {

namespace {

std::string refuse_empty(const std::string& value) {
    return value.empty() ? "the value is empty; leave the option out to do without" : "";
}

}  // namespace

void refuse_empty_values(CLI::App& app, std::initializer_list<std::string_view> except) {
    for (CLI::Option* option : app.get_options([](const CLI::Option* any) {
             return any->get_items_expected_max() > 0;  // a flag takes none
         })) {
        if (std::ranges::find(except, option->get_name()) == except.end())
            option->check(CLI::Validator(refuse_empty, ""));
    }
    for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        refuse_empty_values(*command, except);
}

std::vector<std::string> choices_of(const CLI::Option& option) {
    const std::string type = option.get_type_name();
    std::vector<std::string> words;
    if (type.find('|') == std::string::npos) return words;
    std::istringstream all(type);
    for (std::string word; std::getline(all, word, '|');)
        words.push_back(word);
    return words;
}

void add_log_level(CLI::App& app, Level& level) {
    add_choice<Level>(app, "--log-level", level,
                      {{"debug", Level::debug},
                       {"info", Level::info},
                       {"warn", Level::warn},
                       {"error", Level::error}},
                      "least level that is logged (default info)");
}

CLI::ValidationError no_such_choice(const std::string& option, const std::string& value,
                                    const std::string& choices) {
    return CLI::ValidationError(option, "\"" + value.substr(0, 64) + "\" is none of " + choices);
}

int exit_status(const CLI::App& app, const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
}

int print_output(std::string_view program, std::string_view text, int status) {
    std::cout << text << std::flush;
    if (std::cout.good()) return status;
    std::cerr << program << ": standard output cannot be written\n";
    return 1;
}

}  // namespace drawbridge::base
