#include "cli/explain.hpp"

#include "base/atomic_file.hpp"
#include "cli/completion.hpp"
#include "translate/code.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge;

TEST_CASE("every code is listed and explained with meaning, example and fix") {
    const std::string list = cli::list_codes();
    for (const translate::CodeInfo& code : translate::all_codes()) {
        CAPTURE(code.name);
        CHECK(list.find(std::string(code.name) + " ") != std::string::npos);
        const auto text = cli::explain_code(code.name);
        REQUIRE(text);
        for (const auto& part : {code.name, code.meaning, code.fix}) {
            CHECK(text->find(part) != std::string::npos);
        }
    }
}

TEST_CASE("an unknown code is answered with the nearest ones") {
    for (const char* typed : {"memory-unti", "memoryunit", "mem-unit"}) {
        const auto text = cli::explain_code(typed);
        REQUIRE_FALSE(text);
        CHECK(text.error().kind == base::ErrorKind::not_found);
        CHECK(text.error().message.find("memory-unit") != std::string::npos);
    }
}

TEST_CASE("docs/codes.md is what the codes say") {
    const auto page = base::read_file(DRAWBRIDGE_SOURCE "/docs/codes.md", 1U << 20U);
    REQUIRE(page);
    CHECK_MESSAGE(*page == cli::codes_markdown(), "run: drawbridge explain --markdown");
}

TEST_CASE("completion scripts name every command and option") {
    const std::vector<cli::CommandWords> commands = {
        {"translate",
         "print manifests",
         {{{"--fleet"}, true, {}}, {{"--strict"}, false, {}}, {{"--output", "-o"}, true, {"yaml"}}},
         {}},
        {"explain", "say what a code means", {}, {"memory-unit"}}};
    for (const char* shell : {"bash", "zsh", "fish"}) {
        CAPTURE(shell);
        const auto script = cli::completion_script(shell, commands);
        REQUIRE(script);
        const bool fish = std::string_view(shell) == "fish";  // it writes names without dashes
        for (const std::string word :
             {"translate", "explain", "--fleet", "--strict", "--output", "memory-unit", "yaml"}) {
            CAPTURE(word);
            const bool option = word.starts_with("--");
            CHECK(script->find(fish && option ? "-l " + word.substr(2) : word) !=
                  std::string::npos);
        }
    }
    CHECK_FALSE(cli::completion_script("csh", commands));
}
