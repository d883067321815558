#include "cli/completion.hpp"

#include <fmt/format.h>

namespace drawbridge::cli {
namespace {

std::string names_of(const std::vector<CommandWords>& commands) {
    std::string names;
    for (const CommandWords& command : commands)
        names += (names.empty() ? "" : " ") + command.name;
    return names;
}

std::string words_of(const CommandWords& command) {
    std::string words = fmt::format("{}", fmt::join(command.arguments, " "));
    for (const OptionWords& option : command.options)
        words += fmt::format("{}{}", words.empty() ? "" : " ", fmt::join(option.names, " "));
    return words;
}

/// Branches of a `case` over `COMMAND OPTION`: what stands behind an option that takes a value.
std::string value_branches(const std::vector<CommandWords>& commands, std::string_view words,
                           std::string_view files) {
    std::string branches;
    for (const CommandWords& command : commands) {
        for (const OptionWords& option : command.options) {
            if (!option.takes_value) continue;
            std::string pattern;
            for (const std::string& name : option.names)
                pattern +=
                    fmt::format("{}\"{} {}\"", pattern.empty() ? "" : "|", command.name, name);
            branches += fmt::format("        {}) ", pattern);
            branches += option.values.empty()
                            ? std::string(files)
                            : fmt::format(fmt::runtime(words), fmt::join(option.values, " "));
            branches += " ;;\n";
        }
    }
    return branches;
}

std::string bash_script(const std::vector<CommandWords>& commands) {
    std::string script = fmt::format(
        "# bash completion: source <(drawbridge completion bash)\n"
        "_drawbridge() {{\n"
        "    local word=${{COMP_WORDS[COMP_CWORD]}} words=\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W \"{}\" -- \"$word\"))\n"
        "        return\n"
        "    fi\n"
        "    case \"${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}\" in\n"
        "{}",
        names_of(commands), value_branches(commands, "words=\"{}\"", "COMPREPLY=(); return"));
    for (const CommandWords& command : commands) {
        script +=
            fmt::format("        \"{} \"*) words=\"{}\" ;;\n", command.name, words_of(command));
    }
    return script +
           "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
           "}\n"
           "complete -o default -F _drawbridge drawbridge\n";
}

std::string zsh_script(const std::vector<CommandWords>& commands) {
    std::string script = fmt::format(
        "#compdef drawbridge\n"
        "# zsh completion: source <(drawbridge completion zsh)\n"
        "_drawbridge() {{\n"
        "    if (( CURRENT == 2 )); then\n"
        "        compadd -- {}\n"
        "        return\n"
        "    fi\n"
        "    case \"${{words[2]}} ${{words[CURRENT-1]}}\" in\n"
        "{}",
        names_of(commands), value_branches(commands, "compadd -- {}; return", "_files; return"));
    for (const CommandWords& command : commands) {
        script +=
            fmt::format("        \"{} \"*) compadd -- {} ;;\n", command.name, words_of(command));
    }
    return script +
           "    esac\n"
           "    _files\n"
           "}\n"
           "compdef _drawbridge drawbridge\n";
}

std::string fish_option(const CommandWords& command, const OptionWords& option) {
    std::string line =
        fmt::format("complete -c drawbridge -n \"__fish_seen_subcommand_from {}\"", command.name);
    for (const std::string& name : option.names) {
        line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                       : fmt::format(" -s {}", name.substr(1));
    }
    if (!option.values.empty()) line += fmt::format(" -x -a \"{}\"", fmt::join(option.values, " "));
    return line + (option.takes_value && option.values.empty() ? " -r -F\n" : "\n");
}

std::string fish_script(const std::vector<CommandWords>& commands) {
    std::string script = "# fish completion: drawbridge completion fish | source\n";
    for (const CommandWords& command : commands) {
        script +=
            fmt::format("complete -c drawbridge -n __fish_use_subcommand -f -a {} -d \"{}\"\n",
                        command.name, command.description);
        if (!command.arguments.empty()) {
            script += fmt::format(
                "complete -c drawbridge -n \"__fish_seen_subcommand_from {}\" -f -a \"{}\"\n",
                command.name, fmt::join(command.arguments, " "));
        }
        for (const OptionWords& option : command.options)
            script += fish_option(command, option);
    }
    return script;
}

}  // namespace

base::Result<std::string> completion_script(std::string_view shell,
                                            const std::vector<CommandWords>& commands) {
    if (shell == "bash") return bash_script(commands);
    if (shell == "zsh") return zsh_script(commands);
    if (shell == "fish") return fish_script(commands);
    return base::fail(base::ErrorKind::not_found,
                      fmt::format("no completion for \"{}\"; there is one for bash, zsh and fish",
                                  shell.substr(0, 64)));
}

}  // namespace drawbridge::cli
