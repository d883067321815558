#include "agent/process/node_checks.hpp"

#include "agent/rpc/rpc_server.hpp"
#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

using namespace drawbridge::agent;

namespace {

class Node {
public:
    Node() {
        for (const char* name : {"cdi", "static", "instances", "elsewhere"})
            std::filesystem::create_directory(folder / name);
        checks = std::make_unique<NodeChecks>(NodeCheckParts{.files = files,
                                                             .runtime_sockets = {socket()},
                                                             .cdi = folder / "cdi",
                                                             .cdi_folders = {folder / "static"},
                                                             .instances = folder / "instances"});
    }

    [[nodiscard]] std::string socket() const { return folder / "runtime.sock"; }
    void write(const std::string& name, std::string_view text) const {
        std::ofstream(folder / name) << text;
    }
    /// Whether a look finds a file that names our kind.
    [[nodiscard]] bool clashes() const {
        checks->look();
        return std::ranges::any_of(checks->remarks(), [](const std::string& remark) {
            return remark.find("copy.yaml") != std::string::npos;
        });
    }

    drawbridge::test::Folder folder;
    DiskFiles files;
    std::unique_ptr<NodeChecks> checks;
};

/// A container runtime that says whether its CDI is on, and counts how often it is asked.
class Runtime {
public:
    Runtime(const std::string& socket, bool on) {
        const std::string config =
            std::string(R"({"enableCDI":)") + (on ? "true" : "false") + R"(,"cdiSpecDirs":[]})";
        // `info`, the second field of the answer, has the text under "config".
        const std::string entry = field(1, "config") + field(2, config);
        server_ = std::make_unique<rpc::RpcServer>(std::vector<rpc::RpcMethod>{
            {.name = "/runtime.v1.RuntimeService/Status",
             .unary =
                 [this, answer = field(2, entry)](const std::string&,
                                                  const std::shared_ptr<rpc::RpcCall>& call) {
                     ++asked;
                     call->finish({rpc::RpcCode::ok, answer});
                 },
             .stream = {}}});
        REQUIRE(server_->listen({socket}));
    }

    std::atomic<int> asked = 0;

private:
    static std::string field(int number, const std::string& bytes) {
        REQUIRE(bytes.size() < 128);
        return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} +
               bytes;
    }

    std::unique_ptr<rpc::RpcServer> server_;
};

constexpr std::string_view ours = "cdiVersion: 0.5.0\nkind: k8s.gpu.drawbridge.dev/claim\n";

}  // namespace

TEST_CASE("a runtime is asked again once it has another socket, and at each tenth look") {
    Node node;
    auto runtime = std::make_unique<Runtime>(node.socket(), true);
    for (int looks = 0; looks < 10; ++looks)
        node.checks->look();
    CHECK(runtime->asked == 1);
    CHECK(node.checks->cdi() == CdiState::on);
    node.checks->look();
    CHECK(runtime->asked == 2);

    runtime.reset();
    node.checks->look();
    CHECK(node.checks->cdi() == CdiState::on);
    CHECK(node.checks->refusal().empty());
    runtime = std::make_unique<Runtime>(node.socket(), false);
    node.checks->look();
    node.checks->look();
    CHECK(runtime->asked == 1);
    CHECK(node.checks->cdi() == CdiState::off);
    CHECK_FALSE(node.checks->refusal().empty());
}

TEST_CASE("foreign CDI files are told of, and told of no longer, whatever leads to them") {
    const Node node;
    CHECK_FALSE(node.clashes());
    node.write("cdi/copy.yaml", ours);
    CHECK(node.clashes());
    CHECK(node.clashes());
    node.write("cdi/copy.yaml", "kind: nvidia.com/gpu\n");
    CHECK_FALSE(node.clashes());
    // Of a link's target the folder with the link does not hear.
    std::filesystem::create_symlink(node.folder / "elsewhere/a", node.folder / "static/copy.yaml");
    CHECK_FALSE(node.clashes());
    node.write("elsewhere/a", ours);
    CHECK(node.clashes());
    node.write("elsewhere/a", "kind: nvidia.com/gpu\n");
    CHECK_FALSE(node.clashes());
    std::filesystem::remove(node.folder / "static/copy.yaml");
    CHECK_FALSE(node.clashes());
}

TEST_CASE("a foreign CDI file that got another name is looked at each tenth time") {
    const Node node;
    node.write("static/copy.yaml", "kind: nvidia.com/gpu\n");
    CHECK_FALSE(node.clashes());
    std::filesystem::create_hard_link(node.folder / "static/copy.yaml",
                                      node.folder / "elsewhere/a");
    node.write("elsewhere/a", ours);  // of which the folder is not told
    int looks = 1;
    while (looks < 10 && !node.clashes())
        ++looks;
    CHECK(node.clashes());
}
