#include "translate/settings_hami.hpp"

#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace drawbridge::translate {
namespace {

base::Result<Settings> read_yaml(const std::string& yaml) {
    const auto manifests = kube::read_manifests(yaml);
    REQUIRE_MESSAGE(manifests, manifests.error().message);
    REQUIRE(manifests->size() == 1);
    const auto document = base::parse_json(manifests->front().json);
    REQUIRE(document);
    return read_settings(document->root());
}

std::string problems(const std::string& yaml) {
    const auto settings = read_yaml(yaml);
    return settings ? "" : settings.error().message;
}

std::string indented(const std::string& text, const std::string& by) {
    std::string result = by;
    for (const char c : text) {
        result += c;
        if (c == '\n') result += by;
    }
    return result + "\n";
}

/// Of the shape that HAMi's chart renders, with a site's own names and figures.
const std::string device_config = R"(nvidia:
  resourceCountName: example.com/vgpu
  resourceMemoryName: example.com/vgpu-mem
  resourceMemoryPercentageName: example.com/vgpu-mem-percentage
  resourceCoreName: example.com/vgpu-cores
  resourcePriorityName: "example.com/vgpu-priority"
  overwriteEnv: true
  defaultMemory: 4096
  defaultCores: 30
  defaultGPUNum: 2
  memoryFactor: 256
  deviceSplitCount: 10
  deviceMemoryScaling: 1.5
  deviceCoreScaling: 1
  gpuCorePolicy: force
  libCudaLogLevel: 1
  runtimeClassName: "nvidia"
  preConfiguredDeviceMemory: 0
  knownMigGeometries:
  - models: [ "A30" ]
    allowedGeometries:
      -
        - name: 1g.6gb
          memory: 6144
          count: 4
cambricon:
  resourceCountName: cambricon.com/vmlu
iluvatars:
- chipName: MR-V100
vnpus:
- chipName: 910B
  templates:
    - name: vir02
      memory: 2184)";

Settings expected_from_device_config() {
    Settings settings;
    settings.resources = {"example.com/vgpu", "example.com/vgpu-mem",
                          "example.com/vgpu-mem-percentage", "example.com/vgpu-cores",
                          "example.com/vgpu-priority"};
    settings.defaults = {.count = 2, .memory_mib = 4096, .cores = 30, .memory_factor = 256};
    settings.policy.hide_gpus_from_others = true;
    settings.policy.core_policy = CorePolicy::force;
    settings.policy.runtime_class = "nvidia";
    return settings;
}

const std::string config_map =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hami-scheduler-device\n  namespace: "
    "kube-system\ndata:\n";

const std::string ours = "apiVersion: drawbridge.dev/v1\nkind: Settings\n";

std::string webhook(const std::string& selectors) {
    return "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\n"
           "metadata:\n  name: hami-webhook\nwebhooks:\n- name: vgpu.hami.io\n  failurePolicy: "
           "Ignore\n" +
           selectors;
}

TEST_CASE("a webhook of others is not read as HAMi's") {
    std::string other = webhook("");
    other.replace(other.find("vgpu.hami.io"), 12, "mesh.example");
    const auto settings = read_yaml(other);
    REQUIRE_FALSE(settings);
    CHECK(settings.error().message.find("mesh.example") != std::string::npos);
}

TEST_CASE("HAMi's device-config.yaml carries names, defaults and policies over") {
    const auto settings = read_yaml(device_config);
    REQUIRE_MESSAGE(settings, settings.error().message);
    CHECK(*settings == expected_from_device_config());
}

TEST_CASE("the ConfigMap of HAMi's chart means what the file inside it means") {
    const auto settings =
        read_yaml(config_map + "  device-config.yaml: |-\n" + indented(device_config, "    "));
    REQUIRE_MESSAGE(settings, settings.error().message);
    CHECK(*settings == expected_from_device_config());
}

TEST_CASE(
    "what HAMi's file leaves out keeps its default, and an empty name means no such resource") {
    const auto settings = read_yaml(
        "nvidia:\n  resourceMemoryName: \"\"\n  gpuCorePolicy: \"\"\n  runtimeClassName:\n");
    Settings expected;
    expected.resources.memory.clear();
    CHECK(settings.value() == expected);
    CHECK(read_yaml("nvidia: {}\n").value() == Settings{});
}

TEST_CASE("figures that HAMi reads as none are read so here") {
    const auto settings = read_yaml("nvidia:\n  memoryFactor: 0\n  defaultGPUNum: -1\n").value();
    CHECK(settings.defaults.memory_factor == 1);
    CHECK(settings.defaults.count == 0);
}

TEST_CASE("the factor under the name that Volcano's device plugin has for it counts too") {
    const auto factor = [](const std::string& fields) {
        return read_yaml("nvidia:\n" + fields).value().defaults.memory_factor;
    };
    CHECK(factor("  resourceMemoryName: volcano.sh/vgpu-memory\n  gpuMemoryFactor: 1024\n") ==
          1024);
    CHECK(factor("  gpuMemoryFactor: 1024\n  memoryFactor: 10\n") == 10);
}

TEST_CASE(
    "a limit that HAMi's nodes switch off is off, unless the webhook's policy says otherwise") {
    struct Row {
        const char* yaml;
        CorePolicy policy;
    };
    const std::vector<Row> rows = {
        {"nvidia: {disableCoreLimit: true}", CorePolicy::disable},
        {"nvidia: {disableCoreLimit: true, gpuCorePolicy: \"\"}", CorePolicy::disable},
        {"nvidia: {disableCoreLimit: true, gpuCorePolicy: default}", CorePolicy::disable},
        {"nvidia: {disableCoreLimit: true, gpuCorePolicy: force}", CorePolicy::force},
        {"nvidia: {disableCoreLimit: false, gpuCorePolicy: disable}", CorePolicy::disable},
        {"nvidia: {disableCoreLimit: false}", CorePolicy::standard},
    };
    for (const auto& row : rows) {
        CAPTURE(row.yaml);
        CHECK(read_yaml(row.yaml).value().policy.core_policy == row.policy);
    }
}

TEST_CASE("faults in HAMi's file are named with their place in it") {
    const std::string found = problems(
        "nvidia:\n  resourceCountName: gpu\n  defaultMemory: \"0\"\n  defaultCores: 101\n  "
        "overwriteEnv: 1\n"
        "  gpuCorePolicy: forced\n");
    for (const std::string_view place :
         {"/nvidia/resourceCountName: must be the name of an extended resource",
          "/nvidia/defaultMemory: must be a number",
          "/nvidia/defaultCores: must be a whole number from 0 to 100",
          "/nvidia/overwriteEnv: must be true or false",
          "/nvidia/gpuCorePolicy: unknown value \"forced\"; did you mean \"force\"?"}) {
        CAPTURE(place);
        CHECK(found.find(place) != std::string::npos);
    }
    CHECK(problems("nvidia: []\n") == "/nvidia: must be an object");
}

TEST_CASE("a ConfigMap may hold our own settings, which win over HAMi's beside them") {
    const auto own = ours + "profile: hami\ndefaults:\n  cores: 5";
    CHECK(read_yaml(config_map + "  settings.yaml: |\n" + indented(own, "    "))
              .value()
              .defaults.cores == 5);
    const auto both = read_yaml(config_map + "  settings.yaml: |\n" + indented(own, "    ") +
                                "  device-config.yaml: |\n" + indented(device_config, "    "));
    auto expected = expected_from_device_config();
    expected.profile = "hami";
    expected.target = profile_settings("hami").value().target;
    expected.defaults.cores = 5;
    CHECK(both.value() == expected);
}

TEST_CASE("faults inside a ConfigMap are named with the file and the place in it") {
    struct Row {
        std::string data;
        std::string_view problem;
    };
    const std::vector<Row> rows = {
        {"  other: x\n", "/data: has neither settings.yaml nor device-config.yaml"},
        {"  settings.yaml: \"\"\n", "/data/settings.yaml: must hold one document, found 0"},
        {"  settings.yaml: \"a: 1\\n---\\nb: 2\\n\"\n",
         "/data/settings.yaml: must hold one document, found 2"},
        {"  settings.yaml: \"a: [\"\n", "/data/settings.yaml: "},
        {"  device-config.yaml: \"amd: {}\"\n", "/data/device-config.yaml#/nvidia: is missing"},
        {"  settings.yaml: |\n" + indented(ours + "defaults:\n  cores: x", "    "),
         "/data/settings.yaml#/defaults/cores: must be a number, found \"x\""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.data);
        CHECK(problems(config_map + row.data).substr(0, row.problem.size()) == row.problem);
    }
    CHECK(problems("apiVersion: v1\nkind: ConfigMap\n") ==
          "/data: has neither settings.yaml nor device-config.yaml");
}

TEST_CASE("opt-outs of HAMi's webhook configuration are carried over") {
    const auto settings = read_yaml(webhook(R"(  namespaceSelector:
    matchExpressions:
    - {key: hami.io/webhook, operator: NotIn, values: [ignore]}
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, monitoring]}
  objectSelector:
    matchExpressions:
    - {key: hami.io/webhook, operator: NotIn, values: [ignore]}
)"));
    Settings expected;
    expected.policy.opt_out_labels = {{"hami.io/webhook", "ignore"},
                                      {"kubernetes.io/metadata.name", "kube-system"},
                                      {"kubernetes.io/metadata.name", "monitoring"}};
    REQUIRE_MESSAGE(settings, settings.error().message);
    CHECK(*settings == expected);
    CHECK(read_yaml(webhook("")).value().policy.opt_out_labels.empty());
}

TEST_CASE("a selector that is no opt-out is refused, since it would be lost") {
    struct Row {
        const char* selectors;
        std::string_view problem;
    };
    const std::vector<Row> rows = {
        {"  namespaceSelector: {matchLabels: {gpu: shared}}\n",
         "/webhooks/0/namespaceSelector/matchLabels: cannot be carried over"},
        {"  objectSelector: {matchExpressions: [{key: a, operator: Exists}]}\n",
         "/webhooks/0/objectSelector/matchExpressions/0: operator \"Exists\" on \"a\" cannot be "
         "carried over"},
        {"  objectSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}\n",
         "/webhooks/0/objectSelector/matchExpressions/0: operator \"In\" on \"a\" cannot be "
         "carried over"},
        {"  objectSelector: {matchExpressions: [{key: a, operator: NotIn, values: [1]}]}\n",
         "/webhooks/0/objectSelector/matchExpressions/0: \"a\" with value"},
        {"  objectSelector: {matchExpressions: [7]}\n",
         "/webhooks/0/objectSelector/matchExpressions/0: operator \"\""},
        {"  matchConditions: [{name: x, expression: \"true\"}]\n",
         "/webhooks/0/matchConditions: cannot be carried over"},
        {"- name: second\n", "/webhooks: must list one webhook, found 2"},
    };
    for (const auto& row : rows) {
        CAPTURE(row.selectors);
        CHECK(problems(webhook(row.selectors)).substr(0, row.problem.size()) == row.problem);
    }
    CHECK(problems("kind: MutatingWebhookConfiguration\nwebhooks: []\n") ==
          "/webhooks: must list one webhook, found 0; keep HAMi's alone");
}

TEST_CASE("a List brings HAMi's files and our own together, as kubectl prints several objects") {
    const auto item = [](const std::string& text) { return "-\n" + indented(text, "  "); };
    const std::string list = "apiVersion: v1\nkind: List\nitems:\n";
    const auto settings = read_yaml(
        list +
        item(webhook("  objectSelector:\n    matchExpressions:\n"
                     "    - {key: a, operator: NotIn, values: [b]}\n")) +
        item(config_map + "  device-config.yaml: |-\n" + indented(device_config, "    ")) +
        item(ours + "policy:\n  runtimeClass: other"));
    auto expected = expected_from_device_config();
    expected.policy.runtime_class = "other";
    expected.policy.opt_out_labels = {{"a", "b"}};
    REQUIRE_MESSAGE(settings, settings.error().message);
    CHECK(*settings == expected);
    CHECK(problems(list + item(ours) + item(ours)) ==
          "/items/1: is a second document of its sort; keep one of them");
    CHECK(problems("kind: List\nitems: []\n") == "/items: must list 1 to 64 documents");
    CHECK(problems(list + item(ours + "x: 1")).substr(0, 10) == "/items/0/x");
}

}  // namespace
}  // namespace drawbridge::translate
