// What the agent finds out of its node: the runtime's configuration, foreign CDI files; and the
// files of KEP-5304.

#include "agent/cdi/runtime_facts.hpp"
#include "agent/prepare/device_metadata.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <sstream>
#include <string>

using namespace drawbridge::agent;
using nlohmann::json;

namespace {

std::string config(const json& enabled, const json& folders) {
    return json{{"enableCDI", enabled}, {"cdiSpecDirs", folders}}.dump();
}

ClaimRecord record() {
    return {
        .claim = {"ns", "claim-x7k2p", "uid-1"},
        .pod_claim = "gpu",
        .shares = {{.request = "a",
                    .pool = "node",
                    .device = "gpu-1",
                    .uuid = "GPU-1",
                    .share_id = "s1",
                    .amounts = {.memory_bytes = std::int64_t{8000} << 20, .cores = 30, .slots = 1}},
                   {.request = "b",
                    .subrequest = "big",
                    .pool = "node",
                    .device = "gpu-2",
                    .uuid = "GPU-2",
                    .admin = true},
                   {.request = "a",
                    .pool = "node",
                    .device = "gpu-2",
                    .uuid = "GPU-2",
                    .share_id = "s2",
                    .amounts = {.memory_bytes = std::int64_t{1} << 30, .slots = 1}}}};
}

Inventory inventory() {
    Device first{
        .uuid = "GPU-1", .product_name = "NVIDIA H200", .memory_bytes = std::int64_t{80} << 30};
    first.place.pci_bus_id = "0000:3b:00.0";
    return Inventory::make({first}, {}, {}).value();
}

std::vector<json> objects(const std::string& text) {
    std::vector<json> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        all.push_back(json::parse(line));
    return all;
}

}  // namespace

TEST_CASE("whether CDI is on is read from what the runtime says of itself") {
    const auto state = [](const std::string& text) {
        return read_runtime_config(text, "/var/run/cdi").cdi;
    };
    CHECK(state(config(true, {"/etc/cdi", "/var/run/cdi"})) == CdiState::on);
    CHECK(state(config(true, {"/etc/cdi", "/run/cdi/"})) == CdiState::on);
    CHECK(state(config(true, json::array())) == CdiState::on);
    CHECK(state(config(false, {"/etc/cdi", "/var/run/cdi"})) == CdiState::off);
    CHECK(state(config(true, {"/etc/cdi"})) == CdiState::off);
    // No word of it, no JSON, another form: unknown, and nothing is refused for that.
    for (const char* text : {"", "{}", "[]", "cdi = true", R"({"enableCDI":"true"})", "{\"a\":"})
        CHECK(state(text) == CdiState::unknown);
}

TEST_CASE("CRI-O has CDI on where it reads the agent's folder") {
    const auto facts = [](const json& folders) {
        const json runtime{{"SELinux", false}, {"CDISpecDirs", folders}};
        const json config{{"sandboxImage", "registry.k8s.io/pause:3.10.1"}, {"crio", runtime}};
        return read_runtime_config(config.dump(), "/var/run/cdi");
    };
    CHECK(facts({"/etc/cdi", "/var/run/cdi"}).cdi == CdiState::on);
    const auto apart = facts({"/etc/cdi", "/opt/cdi"});
    CHECK(apart.cdi == CdiState::off);
    CHECK(apart.reason.find("/etc/cdi and /opt/cdi") != std::string::npos);
    CHECK(apart.reason.find("CRI-O's cdi_spec_dirs") != std::string::npos);
    CHECK(facts(json::array()).reason.find("in no folder") != std::string::npos);
    // One that says nothing of it.
    CHECK(facts(nullptr).cdi == CdiState::unknown);
}

TEST_CASE("of several runtimes each that tells must have CDI on") {
    const RuntimeFacts on{CdiState::on, {}};
    const RuntimeFacts off{CdiState::off, "why"};
    CHECK(worst_of({}).cdi == CdiState::unknown);
    CHECK(worst_of({{}, on}).cdi == CdiState::on);
    CHECK(worst_of({on, {}}).cdi == CdiState::on);
    CHECK(worst_of({on, off, {}}).reason == "why");
}

TEST_CASE("what is wrong with the runtime is told with what to do") {
    const auto off = read_runtime_config(config(false, {"/etc/cdi"}), "/var/run/cdi");
    CHECK(off.reason.find("enable_cdi") != std::string::npos);
    const auto apart = read_runtime_config(config(true, {"/etc/cdi"}), "/var/run/cdi");
    CHECK(apart.reason.find("/etc/cdi") != std::string::npos);
    CHECK(apart.reason.find("--cdi") != std::string::npos);
}

TEST_CASE("foreign CDI files of our kind are found, in JSON and YAML, and others are not") {
    const std::string ours = R"({"cdiVersion":"0.5.0","kind":"k8s.gpu.drawbridge.dev/claim"})";
    const std::string yaml = "cdiVersion: 0.5.0\nkind: k8s.gpu.drawbridge.dev/claim\n";
    CHECK(cdi_clashes({{"/etc/cdi/copy.json", ours}}).size() == 1);
    CHECK(cdi_clashes({{"/etc/cdi/copy.yaml", yaml}})[0].find("/etc/cdi/copy.yaml") !=
          std::string::npos);
    CHECK(cdi_clashes({{"/etc/cdi/nvidia.yaml", "kind: nvidia.com/gpu\n"},
                       {"/etc/cdi/broken.json", "{"},
                       {"/etc/cdi/two.yaml", yaml + "---\n" + yaml},
                       {"/run/cdi/k8s.gpu.drawbridge.dev-claim_u-1.json", ours}})
              .empty());
}

TEST_CASE("each request has one file of metadata, in the folder of its first share") {
    const auto files = metadata_files(record(), inventory());
    REQUIRE(files.size() == 2);
    CHECK(files[0].share == 0);
    CHECK(files[0].container_path ==
          "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/gpu/a/"
          "gpu.drawbridge.dev-metadata.json");
    CHECK(files[1].share == 1);
    ClaimRecord own = record();
    own.pod_claim.clear();
    CHECK(metadata_files(own, inventory())[1].container_path ==
          "/var/run/kubernetes.io/dra-device-attributes/resourceclaims/claim-x7k2p/b/"
          "gpu.drawbridge.dev-metadata.json");
}

TEST_CASE("a file of metadata has the object in each version, newest first") {
    const auto files = metadata_files(record(), inventory());
    const auto all = objects(files[0].text);
    REQUIRE(all.size() == 2);
    CHECK(all[0]["apiVersion"] == "metadata.resource.k8s.io/v1beta1");
    CHECK(all[1]["apiVersion"] == "metadata.resource.k8s.io/v1alpha1");
    CHECK(all[0]["kind"] == "DeviceMetadata");
    CHECK(all[0]["metadata"] ==
          json{{"name", "claim-x7k2p"}, {"namespace", "ns"}, {"uid", "uid-1"}, {"generation", 1}});
    CHECK(all[0]["podClaimName"] == "gpu");
    CHECK(all[0]["requests"] == all[1]["requests"]);
    const json request = all[0]["requests"][0];
    CHECK(request["name"] == "a");
    REQUIRE(request["devices"].size() == 2);
    const json attributes = request["devices"][0]["attributes"];
    CHECK(request["devices"][0]["name"] == "gpu-1");
    CHECK(attributes["uuid"] == json{{"string", "GPU-1"}});
    CHECK(attributes["resource.kubernetes.io/pciBusID"] == json{{"string", "0000:3b:00.0"}});
    CHECK(attributes["shareMemory"] == json{{"string", "8000Mi"}});
    CHECK(attributes["shareCores"] == json{{"int", 30}});
    // A device that is not there any more is still named.
    CHECK(request["devices"][1]["attributes"]["uuid"] == json{{"string", "GPU-2"}});
    CHECK(objects(files[1].text)[0]["requests"][0]["name"] == "b/big");
    CHECK_FALSE(objects(files[1].text)[0]["requests"][0]["devices"][0]["attributes"].contains(
        "shareMemory"));
}

TEST_CASE("texts of metadata are held to what an attribute may have") {
    ClaimRecord claim = record();
    claim.shares[0].share_id = std::string(70, 'x');
    const auto files = metadata_files(claim, inventory());
    const json device = objects(files[0].text)[0]["requests"][0]["devices"][0];
    CHECK(device["attributes"]["shareID"] == json{{"string", std::string(64, 'x')}});
}

TEST_CASE("metadata is mounted once for each request, where no other claim has it") {
    CdiSpec spec{.devices = {{.name = "uid-1-0"}, {.name = "uid-1-1"}, {.name = "uid-1-2"}}};
    add_metadata_mounts(spec, record(), inventory(), "/shares");
    REQUIRE(spec.devices[0].edits.mounts.size() == 1);
    CHECK(spec.devices[0].edits.mounts[0].host_path == "/shares/uid-1-0/metadata.json");
    CHECK(spec.devices[1].edits.mounts.size() == 1);
    CHECK(spec.devices[2].edits.mounts.empty());
}
