#include "kube/client/exec_credential.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace drawbridge;
using namespace drawbridge::kube::client;
using namespace std::chrono_literals;

namespace {

ExecPlugin plugin(std::string version = "client.authentication.k8s.io/v1") {
    ExecPlugin out;
    out.api_version = std::move(version);
    out.command = "aws";
    return out;
}

}  // namespace

TEST_CASE("a plugin is told its version, and of the cluster only where it asked") {
    const ClusterEntry cluster{.server = "https://c:6443",
                               .authorities = {},
                               .tls_server_name = "api",
                               .skip_verify = false};
    CHECK(
        exec_info(plugin(), cluster, "PEM") ==
        R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}})");
    ExecPlugin curious = plugin();
    curious.provide_cluster_info = true;
    curious.cluster_config = R"({"audience":"x"})";
    CHECK(
        exec_info(curious, cluster, "PEM") ==
        R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false,)"
        R"("cluster":{"server":"https://c:6443","tls-server-name":"api","certificate-authority-data":"UEVN",)"
        R"("config":{"audience":"x"}}}})");
}

TEST_CASE("the token of `aws eks get-token` is read") {
    const auto credential = read_exec_credential(
        plugin("client.authentication.k8s.io/v1beta1"),
        R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","spec":{},)"
        R"("status":{"expirationTimestamp":"2026-01-02T15:04:05Z","token":"k8s-aws-v1.abc"}})");
    REQUIRE(credential);
    CHECK(credential->token == "k8s-aws-v1.abc");
    REQUIRE(credential->expires);
    CHECK(*credential->expires ==
          std::chrono::sys_days(std::chrono::year(2026) / 1 / 2) + 15h + 4min + 5s);
}

TEST_CASE("a client certificate without expiry is read") {
    const auto credential = read_exec_credential(
        plugin(), R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",)"
                  R"("status":{"clientCertificateData":"C","clientKeyData":"K"}})");
    REQUIRE(credential);
    CHECK(credential->certificate == "C");
    CHECK(credential->key == "K");
    CHECK_FALSE(credential->expires);
}

TEST_CASE("what is no ExecCredential is refused, and its text is not repeated") {
    const std::string head =
        R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":)";
    const std::string texts[] = {
        "",
        "SECRET",
        "{}",
        "[1]",
        R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1beta1","status":{"token":"SECRET"}})",
        head + "{}}",
        head + "null}",
        head + R"({"clientKeyData":"SECRET"}})",
        head + R"({"token":"SECRET","expirationTimestamp":"tomorrow"}})",
        head + R"({"token":"SECRET","expirationTimestamp":7}})"};
    for (const std::string& text : texts) {
        CAPTURE(text);
        const auto credential = read_exec_credential(plugin(), text);
        REQUIRE_FALSE(credential);
        CHECK(credential.error().message.find("SECRET") == std::string::npos);
        CHECK(credential.error().message.find("aws") != std::string::npos);
    }
}

TEST_CASE("instants are read with offset and fraction") {
    const auto base_time = std::chrono::sys_days(std::chrono::year(2026) / 2 / 28);
    CHECK(*parse_instant("2026-02-28T00:00:00Z") == base_time);
    CHECK(*parse_instant("2026-02-28T01:30:00+01:30") == base_time);
    CHECK(*parse_instant("2026-02-27T22:00:00.123456-02:00") == base_time);
    for (const char* const bad :
         {"", "2026-02-30T00:00:00Z", "2026-02-28T24:00:00Z", "2026-02-28 00:00:00Z",
          "2026-02-28T00:00:00", "2026-02-28T00:00:00.Z", "2026-02-28T00:00:00+1:00",
          "2026-02-28T00:00:00Zx", "x026-02-28T00:00:00Z"}) {
        CAPTURE(bad);
        CHECK_FALSE(parse_instant(bad));
    }
}
