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
    return fmt::format("{} {}", fmt::join(command.arguments, " "), fmt::join(command.options, " "));
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
        "    case ${{COMP_WORDS[1]}} in\n",
        names_of(commands));
    for (const CommandWords& command : commands) {
        script += fmt::format("    {}) words=\"{}\" ;;\n", command.name, words_of(command));
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
        "    case ${{words[2]}} in\n",
        names_of(commands));
    for (const CommandWords& command : commands) {
        script += fmt::format("    {}) compadd -- {} ;;\n", command.name, words_of(command));
    }
    return script +
           "    esac\n"
           "    _files\n"
           "}\n"
           "compdef _drawbridge drawbridge\n";
}

std::string fish_script(const std::vector<CommandWords>& commands) {
    std::string script = "# fish completion: drawbridge completion fish | source\n";
    for (const CommandWords& command : commands) {
        script += fmt::format(
            "complete -c drawbridge -n __fish_use_subcommand -f -a {} -d \"{}\"\n"
            "complete -c drawbridge -n \"__fish_seen_subcommand_from {}\" -a \"{}\"\n",
            command.name, command.description, command.name, words_of(command));
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
