#include "cli/check.hpp"

#include "base/json.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge;
using cli::CheckState;

TEST_CASE("findings are written one a line, with what to do below") {
    const std::vector<cli::Finding> findings = {
        {CheckState::good, "api", "it answers"},
        {CheckState::bad, "class", "there is none", "Make one."}};
    CHECK(cli::write_findings(findings, false) ==
          "ok    api       it answers\n"
          "BAD   class     there is none\n"
          "                Make one.\n");
}

TEST_CASE("findings as JSON can be read back") {
    const std::string text =
        cli::write_findings({{CheckState::unknown, "rights", "who \"knows\""}}, true);
    REQUIRE(text.ends_with("\n"));
    const auto line = base::parse_json(text);
    REQUIRE(line);
    CHECK(line->root()["state"].string_or("") == "note");
    CHECK(line->root()["text"].string_or("") == "who \"knows\"");
    CHECK(line->root()["fix"].is_missing());
}

TEST_CASE("only what is bad makes the status bad") {
    CHECK(cli::check_status({{CheckState::good, "api", ""}, {CheckState::unknown, "x", ""}}) == 0);
    CHECK(cli::check_status({{CheckState::good, "api", ""}, {CheckState::bad, "x", ""}}) == 2);
}

TEST_CASE("settings and credentials that cannot be read are a failure, and no finding") {
    const auto unread = cli::run_check({.kubeconfig = {}, .settings = "/nowhere/settings.yaml"});
    REQUIRE_FALSE(unread);
    CHECK(unread.error().message.find("/nowhere/settings.yaml") != std::string::npos);
    const auto nowhere = cli::run_check({.kubeconfig = "/nowhere/kubeconfig"});
    REQUIRE_FALSE(nowhere);
    CHECK(nowhere.error().message.find("/nowhere/kubeconfig") != std::string::npos);
}
