#include "kube/client/credentials.hpp"

#include "kube/client/run_program.hpp"
#include "scripted_transport.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace drawbridge;
using namespace drawbridge::kube::client;

namespace {

/// A folder that goes with the test.
class Folder : public test::Folder {
public:
    std::string write(const std::string& name, const std::string& text) const {
        const std::string file = *this / name;
        std::filesystem::create_directories(std::filesystem::path(file).parent_path());
        std::ofstream(file) << text;
        return file;
    }
};

std::string config(const std::string& user, const std::string& server = "https://h:6443/base/") {
    return "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u, "
           "namespace: ns}}]\n"
           "clusters: [{name: c, cluster: {server: '" +
           server + "'}}]\nusers: [{name: u, user: " + user + "}]\n";
}

base::Result<std::shared_ptr<const Access>> access_of(boost::asio::io_context& io,
                                                      Connection& connection,
                                                      bool refresh = false) {
    return run(io, connection.access->get(refresh, in_a_minute()));
}

}  // namespace

TEST_CASE("server URLs are taken apart") {
    struct Row {
        const char* url;
        bool tls;
        const char* host;
        const char* port;
        const char* path;
    };
    const Row rows[] = {
        {"https://h", true, "h", "443", ""},
        {"https://h:6443/", true, "h", "6443", ""},
        {"https://rancher.io/k8s/clusters/c-1", true, "rancher.io", "443", "/k8s/clusters/c-1"},
        {"http://127.0.0.1:8001", false, "127.0.0.1", "8001", ""},
        {"https://[::1]:6443", true, "::1", "6443", ""},
        {"https://[fd00::1]", true, "fd00::1", "443", ""},
        {"localhost:8080", false, "localhost", "8080", ""}};
    for (const Row& row : rows) {
        CAPTURE(row.url);
        const auto endpoint = parse_server_url(row.url);
        REQUIRE(endpoint);
        CHECK(endpoint->tls == row.tls);
        CHECK(endpoint->host == row.host);
        CHECK(endpoint->port == row.port);
        CHECK(endpoint->base_path == row.path);
    }
}

TEST_CASE("what is no server URL is refused") {
    for (const char* const url :
         {"", "https://", "ftp://h", "https://h:0", "https://h:65536", "https://h:6443x",
          "https://h:", "https://[::1", "https://[::1]6443", "https://u:p@h", "https://h/?q",
          "https://h/ x", "https://h\r\nX: y", "https://:6443"}) {
        CAPTURE(url);
        CHECK_FALSE(parse_server_url(url));
    }
}

TEST_CASE(
    "--kubeconfig wins over KUBECONFIG, that over the service account, that over the home folder") {
    const Folder folder;
    const std::string one = folder.write("one", config("{token: one}"));
    const std::string two = folder.write("two", config("{token: two}"));
    folder.write(".kube/config", config("{token: home}"));
    folder.write("sa/token", "pod\n");
    folder.write("sa/ca.crt", "CA\n");
    folder.write("sa/namespace", "mine\n");
    boost::asio::io_context io;
    ConnectionSources sources;
    sources.kubeconfig = one;
    sources.kubeconfig_variable = folder / "none:" + two;
    sources.service_account = folder / "sa";
    sources.service_host = "fd00::1";
    sources.service_port = "443";
    sources.home = folder.path();

    const auto token = [&] {
        auto connection = find_connection(io.get_executor(), sources);
        REQUIRE(connection);
        return access_of(io, *connection).value()->token;
    };
    CHECK(token() == "one");
    sources.kubeconfig.clear();
    CHECK(token() == "two");
    sources.kubeconfig_variable.clear();
    CHECK(token() == "pod");
    auto pod = find_connection(io.get_executor(), sources);
    REQUIRE(pod);
    CHECK(pod->name_space == "mine");
    CHECK(pod->endpoint.text() == "https://[fd00::1]:443");
    CHECK(access_of(io, *pod).value()->authorities == "CA");
    sources.service_host.clear();
    CHECK(token() == "home");
    sources.home.clear();
    CHECK_FALSE(find_connection(io.get_executor(), sources));
}

TEST_CASE("a faulty source is told with its file") {
    const Folder folder;
    boost::asio::io_context io;
    ConnectionSources sources;
    const auto refused = [&](const std::string& part) {
        const auto connection = find_connection(io.get_executor(), sources);
        REQUIRE_FALSE(connection);
        CAPTURE(connection.error().message);
        CHECK(connection.error().message.find(part) != std::string::npos);
    };
    sources.kubeconfig = folder / "none";
    refused("/none: No such file");
    sources.kubeconfig = folder.write("bad.yaml", "a: [1\n");
    refused("/bad.yaml");
    sources.kubeconfig = folder.write("token", config("{token: \"a\\r\\nX-Evil: 1\"}"));
    refused("token");
    sources.kubeconfig = folder.write("file", config("{tokenFile: gone}"));
    refused("/gone: No such file");
    sources.kubeconfig = folder.write("url", config("{token: a}", "https://"));
    refused("https://HOST");
    sources.kubeconfig.clear();
    sources.service_host = "10.0.0.1";
    sources.service_account = folder.path();
    folder.write("token", "t");
    refused("ca.crt: No such file");
    folder.write("ca.crt", "CA");
    refused("KUBERNETES_SERVICE_PORT");
}

TEST_CASE("a token file is read again when the server refuses its token") {
    const Folder folder;
    boost::asio::io_context io;
    ConnectionSources sources;
    sources.kubeconfig = folder.write("config", config("{tokenFile: token}"));
    folder.write("token", "old");
    auto connection = find_connection(io.get_executor(), sources);
    REQUIRE(connection);
    const auto before = access_of(io, *connection).value();
    folder.write("token", "new");
    CHECK(access_of(io, *connection).value() == before);  // not looked at for a minute
    CHECK(access_of(io, *connection, true).value()->token == "new");
    folder.write("token", "");
    CHECK_FALSE(access_of(io, *connection, true));
    CHECK(access_of(io, *connection).value()->token == "new");
}

TEST_CASE("an exec plugin is run once and again after a refusal, with its environment") {
    const Folder folder;
    boost::asio::io_context io;
    const std::string log = folder / "log";
    const std::string plugin = folder.write("plugin", R"sh(#!/bin/sh
log="$(dirname "$0")/log"
echo "$1 $EXTRA $KUBERNETES_EXEC_INFO" >> "$log"
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
printf '"status":{"token":"t%d"}}' "$(wc -l < "$log")"
)sh");
    std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
    ConnectionSources sources;
    sources.kubeconfig =
        folder.write("config", config("{exec: {apiVersion: client.authentication.k8s.io/v1, "
                                      "command: ./plugin, args: ['a b;c'], "
                                      "env: [{name: EXTRA, value: more}]}}"));
    auto connection = find_connection(io.get_executor(), sources);
    REQUIRE(connection);
    CHECK(access_of(io, *connection).value()->token == "t1");
    CHECK(access_of(io, *connection).value()->token == "t1");
    CHECK(access_of(io, *connection, true).value()->token == "t2");
    std::ifstream file(log);
    std::string line;
    std::getline(file, line);
    CHECK(line ==
          R"(a b;c more {"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",)"
          R"("spec":{"interactive":false}})");
}

TEST_CASE("a plugin that has expired is run again, one that fails says why") {
    const Folder folder;
    boost::asio::io_context io;
    const std::string plugin = folder.write("plugin", R"sh(#!/bin/sh
cd "$(dirname "$0")" || exit 1
[ -e broken ] && { echo "log in first" >&2; exit 3; }
echo x >> runs
printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":'
printf '{"token":"%d","expirationTimestamp":"2020-01-01T00:00:00Z"}}' "$(wc -l < runs)"
)sh");
    std::filesystem::permissions(plugin, std::filesystem::perms::owner_all);
    ConnectionSources sources;
    sources.kubeconfig =
        folder.write("config", config("{exec: {apiVersion: client.authentication.k8s.io/v1, "
                                      "command: ./plugin, installHint: get it}}"));
    auto connection = find_connection(io.get_executor(), sources);
    REQUIRE(connection);
    CHECK(access_of(io, *connection).value()->token == "1");
    CHECK(access_of(io, *connection).value()->token == "2");
    folder.write("broken", "");
    const auto failed = access_of(io, *connection);
    REQUIRE_FALSE(failed);
    CHECK(failed.error().message.find("ended with 3: log in first; get it") != std::string::npos);
}

TEST_CASE("a program is bounded in time and output, and missing ones are told") {
    const std::atomic<bool> go_on = false;
    const std::atomic<bool> stopped = true;
    const auto fault = [](const base::Result<std::string>& result) {
        REQUIRE_FALSE(result);
        return result.error().message;
    };
    CHECK(run_program({.command = "echo", .arguments = {"$HOME", "*"}, .environment = {}}, go_on)
              .value() == "$HOME *\n");
    CHECK(fault(run_program({.command = "no-such-program-here", .arguments = {}, .environment = {}},
                            go_on))
              .find("cannot be started") != std::string::npos);
    CHECK(fault(run_program({.command = "sleep",
                             .arguments = {"600"},
                             .environment = {},
                             .time_limit = std::chrono::milliseconds(50)},
                            go_on))
              .find("did not end") != std::string::npos);
    CHECK(fault(run_program({.command = "sleep", .arguments = {"600"}, .environment = {}}, stopped))
              .find("stopped") != std::string::npos);
    CHECK(
        fault(run_program({.command = "cat", .arguments = {"/dev/zero"}, .environment = {}}, go_on))
            .find("too much") != std::string::npos);
    CHECK(fault(run_program({.command = "sh", .arguments = {"-c", "kill -9 $$"}, .environment = {}},
                            go_on))
              .find("signal 9") != std::string::npos);
    // The standard input is empty, not ours.
    CHECK(
        run_program({.command = "cat", .arguments = {}, .environment = {}}, go_on).value().empty());
}
