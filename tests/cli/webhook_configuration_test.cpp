#include "cli/webhook_configuration.hpp"

#include "base/atomic_file.hpp"

#include <doctest/doctest.h>

using namespace drawbridge;

TEST_CASE("manifests/base/webhook.yaml is what the settings come to") {
    const auto file = base::read_file(DRAWBRIDGE_SOURCE "/manifests/base/webhook.yaml", 1U << 20U);
    REQUIRE(file);
    const auto made = cli::webhook_configuration({});
    REQUIRE(made);
    CHECK_MESSAGE(*file == *made, "run: drawbridge webhook > manifests/base/webhook.yaml");
}

TEST_CASE("a file that is missing is named") {
    const auto settings = cli::webhook_configuration({.settings = "/nowhere/settings.yaml"});
    REQUIRE_FALSE(settings);
    CHECK(settings.error().message.find("/nowhere/settings.yaml") != std::string::npos);
    const auto bundle = cli::webhook_configuration({.ca_bundle = "/nowhere/ca.crt"});
    REQUIRE_FALSE(bundle);
    CHECK(bundle.error().kind == base::ErrorKind::not_found);
}
