#include "kube/client/kubeconfig.hpp"

#include "kube/manifest.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

using namespace drawbridge;
using namespace drawbridge::kube::client;

namespace {

/// Kubeconfig files out of YAML texts.
class Files {
public:
    void add(std::string path, std::string_view yaml) {
        auto manifests = kube::read_manifests(yaml);
        REQUIRE(manifests);
        REQUIRE(manifests->size() == 1);
        auto document = base::parse_json(manifests->front().json);
        REQUIRE(document);
        documents_.push_back(std::move(*document));
        files_.push_back({std::move(path), documents_.back().root()});
    }
    [[nodiscard]] base::Result<KubeconfigChoice> choose(std::string_view context = "") const {
        return choose_context(files_, context);
    }

private:
    std::vector<base::JsonDocument> documents_;
    std::vector<KubeconfigFile> files_;
};

constexpr std::string_view kind = R"(apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://127.0.0.1:41953
  name: kind-kind
contexts:
- context:
    cluster: kind-kind
    user: kind-kind
  name: kind-kind
current-context: kind-kind
kind: Config
preferences: {}
users:
- name: kind-kind
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
)";

constexpr std::string_view k3s = R"(apiVersion: v1
clusters:
- {cluster: {certificate-authority-data: Q0E=, server: "https://127.0.0.1:6443"}, name: default}
contexts:
- {context: {cluster: default, user: default, namespace: gpu}, name: default}
current-context: default
kind: Config
users:
- {name: default, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}
)";

constexpr std::string_view eks = R"(apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Q0E=
    server: https://ABCDEF.gr7.eu-west-1.eks.amazonaws.com
  name: arn:aws:eks:eu-west-1:111122223333:cluster/prod
contexts:
- context:
    cluster: arn:aws:eks:eu-west-1:111122223333:cluster/prod
    user: arn:aws:eks:eu-west-1:111122223333:cluster/prod
  name: arn:aws:eks:eu-west-1:111122223333:cluster/prod
current-context: arn:aws:eks:eu-west-1:111122223333:cluster/prod
kind: Config
users:
- name: arn:aws:eks:eu-west-1:111122223333:cluster/prod
  user:
    exec:
      apiVersion: client.authentication.k8s.io/v1beta1
      args: [--region, eu-west-1, eks, get-token, --cluster-name, prod, --output, json]
      command: aws
      env:
      - name: AWS_PROFILE
        value: work
      interactiveMode: IfAvailable
      provideClusterInfo: false
)";

/// A file with one cluster and one user, whose bodies are given as flow YAML.
std::string config(std::string_view cluster, std::string_view user) {
    return "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: "
           "[{name: c, cluster: " +
           std::string(cluster) + "}]\nusers: [{name: u, user: " + std::string(user) + "}]\n";
}

}  // namespace

TEST_CASE("the file that kind writes is read") {
    Files files;
    files.add("/home/me/.kube/config", kind);
    const auto choice = files.choose();
    REQUIRE(choice);
    CHECK(choice->context == "kind-kind");
    CHECK(choice->name_space.empty());
    CHECK(choice->cluster.server == "https://127.0.0.1:41953");
    CHECK(choice->cluster.authorities.data == "CA");
    CHECK(choice->user.certificate.data == "CERT");
    CHECK(choice->user.key.data == "KEY");
    CHECK_FALSE(choice->user.exec);
}

TEST_CASE("the file that k3s writes is read, with the namespace of its context") {
    Files files;
    files.add("/etc/rancher/k3s/k3s.yaml", k3s);
    const auto choice = files.choose();
    REQUIRE(choice);
    CHECK(choice->name_space == "gpu");
}

TEST_CASE("the file that aws writes is read, with its plugin") {
    Files files;
    files.add("config", eks);
    const auto choice = files.choose();
    REQUIRE(choice);
    REQUIRE(choice->user.exec);
    CHECK(choice->user.exec->command == "aws");
    CHECK(choice->user.exec->arguments.size() == 8);
    CHECK(choice->user.exec->environment.front() ==
          std::pair<std::string, std::string>{"AWS_PROFILE", "work"});
}

TEST_CASE("relative paths are taken from the folder of the file they stand in") {
    Files files;
    files.add("/etc/k/one",
              config("{server: 'https://h', certificate-authority: pki/ca.crt}",
                     "{client-certificate: /abs/c.crt, client-key: c.key, tokenFile: t}"));
    const auto choice = files.choose();
    REQUIRE(choice);
    CHECK(choice->cluster.authorities.file == "/etc/k/pki/ca.crt");
    CHECK(choice->user.certificate.file == "/abs/c.crt");
    CHECK(choice->user.key.file == "/etc/k/c.key");
    CHECK(choice->user.token_file == "/etc/k/t");
}

TEST_CASE(
    "a command with a slash is a path of the kubeconfig's folder, without one a name in PATH") {
    const std::string_view exec =
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: CMD}}";
    for (const auto& [written, meant] :
         {std::pair<std::string, std::string>{"./bin/login", "/etc/k/./bin/login"},
          {"/opt/login", "/opt/login"},
          {"login", "login"}}) {
        std::string user(exec);
        user.replace(user.find("CMD"), 3, written);
        Files files;
        files.add("/etc/k/one", config("{server: 'https://h'}", user));
        const auto choice = files.choose();
        REQUIRE(choice);
        CHECK(choice->user.exec->command == meant);
    }
}

TEST_CASE("of several files the first entry of a name counts, and the first current-context") {
    Files files;
    files.add("/a/1",
              "current-context: ''\nclusters: [{name: c, cluster: {server: 'https://first'}}]\n");
    files.add("/b/2", config("{server: 'https://second'}", "{token: t}"));
    const auto choice = files.choose();
    REQUIRE(choice);
    CHECK(choice->cluster.server == "https://first");
    CHECK(choice->user.token == "t");
}

TEST_CASE("a context can be chosen by name, and one without a user is anonymous") {
    Files files;
    files.add("/a/1",
              "current-context: gone\ncontexts: [{name: proxy, context: {cluster: p}}]\n"
              "clusters: [{name: p, cluster: {server: 'http://127.0.0.1:8001'}}]\n");
    const auto choice = files.choose("proxy");
    REQUIRE(choice);
    CHECK(choice->user.token.empty());
    CHECK_FALSE(files.choose());
}

TEST_CASE("a plugin gets the extension meant for it") {
    Files files;
    files.add("/a/1",
              config("{server: 'https://h', extensions: [{name: other, extension: 1}, "
                     "{name: client.authentication.k8s.io/exec, extension: {audience: x}}]}",
                     "{exec: {apiVersion: client.authentication.k8s.io/v1, command: c, "
                     "provideClusterInfo: true}}"));
    const auto choice = files.choose();
    REQUIRE(choice);
    CHECK(choice->user.exec->cluster_config == R"({"audience":"x"})");
}

TEST_CASE("a fault is told with file, field and what would be right") {
    struct Row {
        std::string text;
        const char* field;
    };
    const std::string server = "{server: 'https://h'}";
    const Row rows[] = {
        {"{}", "/current-context"},
        {"current-context: x\n", "/contexts"},
        {"current-context: x\ncontexts: {}\n", "/contexts"},
        {"current-context: x\ncontexts: [{name: x, context: []}]\n", "/contexts/0/context"},
        {"current-context: x\ncontexts: [{name: x, context: {}}]\n", "/contexts/0/context/cluster"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n", "/clusters"},
        {config("{}", "{}"), "/clusters/0/cluster/server"},
        {config("{server: 7}", "{}"), "/clusters/0/cluster/server"},
        {config("{server: 'https://h', proxy-url: 'http://p'}", "{}"),
         "proxy-url is not supported"},
        {config("{server: 'https://h', insecure-skip-tls-verify: 'yes'}", "{}"),
         "insecure-skip-tls-verify"},
        {config("{server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: c}",
                "{}"),
         "insecure-skip-tls-verify"},
        {config("{server: 'https://h', certificate-authority-data: '***'}", "{}"),
         "certificate-authority-data"},
        {config(server, "{client-certificate-data: Q0E=}"), "client-key"},
        {config(server, "{client-key: k}"), "client-certificate"},
        {config(server, "{username: u, password: p}"), "username was removed"},
        {config(server, "{auth-provider: {name: gcp}}"), "auth-provider was removed"},
        {config(server, "{as: admin}"), "impersonation"},
        {config(server, "{token: 7}"), "/users/0/user/token"},
        {config(server, "{exec: {command: c}}"), "apiVersion"},
        {config(server, "{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: c}}"),
         "v1alpha1"},
        {config(server, "{exec: {apiVersion: client.authentication.k8s.io/v1}}"), "command"},
        {config(server,
                "{exec: {apiVersion: client.authentication.k8s.io/v1, command: c, args: [1]}}"),
         "args/0"},
        {config(server,
                "{exec: {apiVersion: client.authentication.k8s.io/v1, command: c, args: x}}"),
         "args"},
        {config(server,
                "{exec: {apiVersion: client.authentication.k8s.io/v1, command: c, env: [{name: "
                "a=b, value: x}]}}"),
         "env/0"},
        {config(server,
                "{exec: {apiVersion: client.authentication.k8s.io/v1, command: c, interactiveMode: "
                "Always}}"),
         "interactiveMode"}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        Files files;
        files.add("/etc/k/one", row.text);
        const auto choice = files.choose();
        REQUIRE_FALSE(choice);
        CAPTURE(choice.error().message);
        CHECK(choice.error().kind == base::ErrorKind::invalid_input);
        CHECK(choice.error().message.find("/etc/k/one") != std::string::npos);
        CHECK(choice.error().message.find(row.field) != std::string::npos);
    }
}

TEST_CASE("no file at all is an error") {
    CHECK_FALSE(choose_context({}, ""));
}
