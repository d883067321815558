#include "cli/webhook_configuration.hpp"

#include "base/atomic_file.hpp"
#include "base/hash.hpp"
#include "certs/issue.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <unistd.h>

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

namespace {

/// A file in the folder of this test's process that goes with it.
struct TestFile {
    explicit TestFile(const std::string& text)
        : path(std::filesystem::temp_directory_path() / fmt::format("webhook-test-{}", getpid())) {
        REQUIRE(base::write_file_atomically(path, text));
    }
    TestFile(const TestFile&) = delete;
    TestFile& operator=(const TestFile&) = delete;
    ~TestFile() { std::filesystem::remove(path); }
    std::string path;
};

}  // namespace

TEST_CASE("namespaces that opted out are not called for") {
    const TestFile settings(R"({
        "apiVersion": "drawbridge.dev/v1", "kind": "Settings", "policy": {"optOutLabels": {
            "hami.io/webhook": "ignore", "kubernetes.io/metadata.name": ["kube-system", "infra"]}}
    })");
    const auto made = cli::webhook_configuration({.settings = settings.path});
    REQUIRE(made);
    CHECK(made->find("    - key: hami.io/webhook\n      operator: NotIn\n      values:\n"
                     "      - ignore\n") != std::string::npos);
    CHECK(made->find("      - drawbridge-system\n      - infra\n") != std::string::npos);
}

TEST_CASE("a bundle is certificates and nothing else") {
    const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
    const auto authority = certs::make_ca("authority", std::chrono::hours(1), now);
    REQUIRE(authority);
    const TestFile good("# ours\n" + authority->certificate);
    const auto made = cli::webhook_configuration({.ca_bundle = good.path});
    REQUIRE(made);
    CHECK(made->find("caBundle: " + base::base64_encode(authority->certificate)) !=
          std::string::npos);
    for (const std::string& text :
         {std::string(), std::string("kind: Pod\n"), authority->key,
          authority->certificate + authority->key,
          authority->certificate.substr(0, authority->certificate.size() / 2)}) {
        const TestFile bad(text);
        const auto refused = cli::webhook_configuration({.ca_bundle = bad.path});
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message.starts_with(bad.path));
    }
}
