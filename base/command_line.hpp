#pragma once
// What our programs do alike with their options (CLI11) and with standard output.

#include "base/log.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::base {

/// Lets no option of the program and its commands take an empty value, which is nearly always a
/// variable of a script that was not set: it must not count as "not given". Options named in
/// `except` may.
void refuse_empty_values(CLI::App& app, std::initializer_list<std::string_view> except = {});

/// An option that takes one of a few words; help and completion read them from its type, `a|b`.
template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& target,
                        std::vector<std::pair<std::string, T>> choices, const std::string& help);

/// The words of an option made by `add_choice`; empty for others.
[[nodiscard]] std::vector<std::string> choices_of(const CLI::Option& option);

/// `--log-level`.
void add_log_level(CLI::App& app, Level& level);

/// Prints help, or what is wrong with the arguments. The exit status: 0 or 1, of which CLI11 has
/// more.
[[nodiscard]] int exit_status(const CLI::App& app, const CLI::ParseError& error);

/// Writes standard output to its end; the exit status: `status`, or 1 where it cannot be written,
/// which `program` says on standard error.
[[nodiscard]] int print_output(std::string_view program, std::string_view text, int status = 0);

/// The error of an option whose value is none of its words, without what CLI11 says of types.
[[nodiscard]] CLI::ValidationError no_such_choice(const std::string& option,
                                                  const std::string& value,
                                                  const std::string& choices);

template <class T>
CLI::Option* add_choice(CLI::App& app, const std::string& names, T& target,
                        std::vector<std::pair<std::string, T>> choices, const std::string& help) {
    std::string words;
    for (const auto& choice : choices)
        words += (words.empty() ? "" : "|") + choice.first;
    const std::string name = names.substr(names.rfind(',') + 1);
    const auto read = [&target, choices = std::move(choices), words,
                       name](const std::string& value) {
        const auto found = std::ranges::find(choices, value, &std::pair<std::string, T>::first);
        if (found == choices.end()) throw no_such_choice(name, value, words);
        target = found->second;
    };
    return app.add_option_function<std::string>(names, read, help)->type_name(words);
}

}  // namespace drawbridge::base
