#include "translate/settings.hpp"

#include "base/json.hpp"
#include "translate/settings_fields.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

namespace drawbridge::translate {
namespace {

base::Result<Settings> read(const std::string& json) {
    const auto document = base::parse_json(json);
    REQUIRE(document);
    return read_settings(document->root());
}

/// A settings document with these members.
std::string document(std::string_view members) {
    return fmt::format(R"({{"apiVersion":"drawbridge.dev/v1","kind":"Settings"{}{}}})",
                       members.empty() ? "" : ",", members);
}

/// The problems of a document, one a line; empty if there is none.
std::string problems(const std::string& json) {
    const auto settings = read(json);
    return settings ? "" : settings.error().message;
}

TEST_CASE("a document that says nothing means the profile drawbridge") {
    const auto settings = read(document("")).value();
    CHECK(settings == Settings{});
    CHECK(settings == profile_settings("drawbridge").value());
    CHECK(read(document(R"("metadata":{"name":"x"},"target":null,"policy":{"scheduler":null})"))
              .value() == Settings{});
}

TEST_CASE("a profile is the ground on which single settings stand") {
    const auto settings =
        read(
            document(
                R"("profile":"hami","target":{"deviceClass":"my-gpus"},"defaults":{"memoryMiB":2048})"))
            .value();
    auto expected = profile_settings("hami").value();
    expected.target.device_class = "my-gpus";
    expected.defaults.memory_mib = 2048;
    CHECK(settings == expected);
}

TEST_CASE("the profile hami is what Project-HAMi's driver publishes") {
    const Target target = profile_settings("hami").value().target;
    CHECK(target.driver == "hami-core-gpu.project-hami.io");
    CHECK(target.device_class == "hami-core-gpu.project-hami.io");
    CHECK(target.memory_capacity == "memory");
    CHECK(target.cores_capacity == "cores");
    CHECK(target.slots_capacity.empty());
    CHECK(target.numa_attribute.empty());
    CHECK(target.priority == PriorityForm::environment);
    CHECK(target.exclusive_memory == ExclusiveMemory::drop);
    CHECK(target.shares);
}

TEST_CASE("the profile nvidia hands out whole cards and MIG instances") {
    const Target target = profile_settings("nvidia").value().target;
    CHECK(target.driver == "gpu.nvidia.com");
    CHECK_FALSE(target.shares);
    CHECK(target.memory_capacity == "memory");
    CHECK(target.cores_capacity.empty());
    CHECK(target.slots_capacity.empty());
    CHECK(target.mode_classes.at("mig").device_class == "mig.nvidia.com");
}

TEST_CASE("an unknown profile is refused with what is near") {
    CHECK(profile_settings("nvdia").error().message ==
          R"(unknown profile "nvdia"; did you mean "nvidia"?)");
    CHECK(profile_settings("").error().message ==
          R"(unknown profile ""; known: drawbridge, hami, nvidia)");
    CHECK(problems(document(R"("profile":"Hami")")) ==
          R"(/profile: unknown profile "Hami"; did you mean "hami"?)");
    CHECK(problems(document(R"("profile":3)")) == "/profile: must be the name of a profile");
}

TEST_CASE("each fault is named with its place") {
    struct Row {
        std::string_view members;
        std::string_view problem;
    };
    const std::vector<Row> rows = {
        {R"("memory_sizes":["8Gi"])",
         R"(/memory_sizes: unknown key "memory_sizes"; did you mean "memorySizes"?)"},
        {R"("policy":{"privilegd":"deny"})",
         R"(/policy/privilegd: unknown key "privilegd"; did you mean "privileged"?)"},
        {R"("policy":{"privileged":"no"})",
         R"(/policy/privileged: unknown value "no"; known: deny, allow)"},
        {R"("policy":{"mutex":true})", "/policy/mutex: must be a text, found true"},
        {R"("policy":[])", "/policy: must be an object, found a list"},
        {R"("policy":{"hideGpusFromOthers":"true"})",
         "/policy/hideGpusFromOthers: must be true or false, found \"true\""},
        {R"("defaults":{"count":33})",
         "/defaults/count: must be a whole number from 0 to 32, found 33"},
        {R"("defaults":{"count":1.5})",
         "/defaults/count: must be a whole number from 0 to 32, found 1.5"},
        {R"("defaults":{"count":"1"})", "/defaults/count: must be a number, found \"1\""},
        {R"("defaults":{"cores":101})",
         "/defaults/cores: must be a whole number from 0 to 100, found 101"},
        {R"("defaults":{"memoryFactor":0})",
         "/defaults/memoryFactor: must be a whole number from 1 to 1048576, found 0"},
        {R"("resources":{"count":""})",
         R"(/resources/count: must be the name of an extended resource, like nvidia.com/gpu, found "")"},
        {R"("resources":{"memory":"memory"})",
         "/resources/memory: must be the name of an extended resource, like nvidia.com/gpumem, or "
         "empty, found "
         "\"memory\""},
        {R"("resources":{"cores":"nvidia.com/gpu"})",
         R"(/resources/cores: count and cores are both "nvidia.com/gpu"; each needs a name of its own)"},
        {R"("annotations":{"useType":"nvidia.com/vgpu-mode"})",
         R"(/annotations/mode: useType and mode are both "nvidia.com/vgpu-mode"; each needs a name of its own)"},
        {R"("target":{"coresCapacity":""})",
         "/target/shares: a driver that shares cards needs memoryCapacity and coresCapacity; write "
         "shares: false for "
         "one that hands out whole cards"},
        {R"("target":{"uuidAttribute":"a-b"})",
         R"(/target/uuidAttribute: must be an identifier of at most 32 letters, digits and _, found "a-b")"},
        {R"("target":{"numaAttribute":"numaNode"})",
         "/target/numaAttribute: must be an attribute with its domain, like "
         "gpu.example.com/numaNode, or empty, found "
         "\"numaNode\""},
        {R"("target":{"modeClasses":{"hami-core":"x"}})",
         "/target/modeClasses/hami-core: a mode is mig or mps; hami-core is the driver's own"},
        {R"("target":{"modeClasses":{"mig":{}}})",
         "/target/modeClasses/mig: deviceClass is missing"},
        {R"("target":{"modeClasses":{"mig":"a_b"}})",
         R"(/target/modeClasses/mig: must be a DNS subdomain, like gpu.example.com, found "a_b")"},
        {R"("policy":{"maxMemoryMiB":10,"warnBelowMiB":11})",
         "/policy/warnBelowMiB: 11 is above maxMemoryMiB, which is 10"},
        {R"("policy":{"scheduler":"hami-scheduler"})",
         R"(/policy/scheduler: "hami-scheduler" is the legacy scheduler as well; name the one that handles device )"
         "claims"},
        {R"("policy":{"capableSchedulers":["a","a"]})",
         R"(/policy/capableSchedulers/1: "a" is listed twice)"},
        {R"("policy":{"optOutLabels":{"a b":"c"}})",
         R"(/policy/optOutLabels/a b: the key must be the name of a label, like hami.io/webhook, found "a b")"},
        {R"("policy":{"optOutLabels":{"a":[]}})",
         "/policy/optOutLabels/a: must name at least one value"},
        {R"("memorySizes":["8GB"])", "/memorySizes/0: "},
        {R"("memorySizes":["0"])",
         R"(/memorySizes/0: must be a whole number of bytes from 1Mi to 1Pi, like 80Gi, found "0")"},
        {R"("memorySizes":["1500m"])",
         R"(/memorySizes/0: must be a whole number of bytes from 1Mi to 1Pi, like 80Gi, found "1500m")"},
        {R"("memorySizes":[24])",
         R"(/memorySizes/0: must be a whole number of bytes from 1Mi to 1Pi, like 80Gi, found "24")"},
        {R"("memorySizes":["8Gi","8192Mi"])", "/memorySizes/1: 8589934592 bytes are listed twice"},
        {R"("memorySizes":[1,2,3,4,5,6,7,8,9])",
         "/memorySizes: has 9 entries; at most 8 are allowed"},
        {R"("workloads":[{"kind":"A","paths":["spec"]}])",
         R"(/workloads/0/paths/0: must be a JSON pointer, like /spec/template; * stands for each element, found "spec")"},
        {R"("workloads":[{"kind":"A","paths":["/a~2"]}])",
         R"(/workloads/0/paths/0: must be a JSON pointer, like /spec/template; * stands for each element, found "/a~2")"},
        {R"("workloads":[{"kind":"A"}])",
         "/workloads/0: paths must name at least one JSON pointer to a pod template"},
        {R"("workloads":[{"paths":["/a"]}])", "/workloads/0: kind is missing"},
        {R"("workloads":[{"kind":"A","paths":["/a"]},{"kind":"A","paths":["/b"]}])",
         R"(/workloads/1: kind "A" is listed twice; put all its paths in one entry)"},
        {R"("workloads":["A"])", "/workloads/0: must be an object, found \"A\""},
    };
    for (const auto& row : rows) {
        CAPTURE(row.members);
        const std::string found = problems(document(row.members));
        CHECK(found.substr(0, row.problem.size()) == row.problem);
        CHECK(std::count(found.begin(), found.end(), '\n') == 0);
    }
}

TEST_CASE("all faults come in one answer") {
    const auto error =
        read(
            document(
                R"("profile":"x","resources":{"count":"cpu"},"defaults":{"cores":-1},"targets":{})"))
            .error();
    CHECK(error.kind == base::ErrorKind::invalid_input);
    CHECK(error.path == "/profile");
    for (const std::string_view place :
         {"/profile: ", "\n/resources/count: ", "\n/defaults/cores: ", "\n/targets: "}) {
        CAPTURE(place);
        CHECK(error.message.find(place) != std::string::npos);
    }
}

TEST_CASE("the answer to a hostile document stays short and on its lines") {
    std::string members = R"("line\nbreak\u001b[31m":1,"/~":1)";
    for (int i = 0; i < 1000; ++i)
        members += fmt::format(R"(,"{}{}":1)", std::string(300, 'x'), i);
    const std::string found = problems(document(members));
    CHECK(found.size() < 100 * 1024);
    CHECK(std::count(found.begin(), found.end(), '\n') == 100);
    CHECK(found.find('\x1b') == std::string::npos);
    CHECK(found.find("/~1~0: ") != std::string::npos);
    CHECK(found.find("(and 902 more)") != std::string::npos);
}

TEST_CASE("another version or kind is refused without a look at the rest") {
    CHECK(
        problems(R"({"apiVersion":"drawbridge.dev/v2","kind":"Settings","new":1})") ==
        R"(/apiVersion: must be drawbridge.dev/v1 (this version reads no other), found "drawbridge.dev/v2")");
    CHECK(problems(R"({"kind":"Settings"})").substr(0, 42) ==
          "/apiVersion: must be drawbridge.dev/v1 (th");
    CHECK(problems(R"({"apiVersion":"drawbridge.dev/v1","kind":"Setting"})") ==
          R"(/kind: must be Settings, found "Setting")");
}

TEST_CASE("what is no settings document is refused with what would be") {
    for (const std::string json :
         {"null", "[]", "1", "{}", R"({"kind":"Pod","apiVersion":"v1"})", R"({"profile":"hami"})",
          R"({"kind":7})", R"({"kind":"List","items":[{"kind":"List"}]})"}) {
        CAPTURE(json);
        CHECK(problems(json).find("this is no settings document; accepted are:") !=
              std::string::npos);
    }
}

TEST_CASE("memory sizes are quantities, sorted") {
    const auto settings =
        read(document(R"("memorySizes":["80Gi",25769803776,"40960Mi","1e9"])")).value();
    CHECK(settings.memory_sizes ==
          std::vector<std::int64_t>{1000000000, 24LL << 30, 40LL << 30, 80LL << 30});
}

TEST_CASE("a mode's class may be given alone or with its driver") {
    const auto settings = read(document(R"("target":{"modeClasses":{"mig":"mig.nvidia.com",
                         "mps":{"deviceClass":"mps","driver":"d.example","memoryCapacity":"mem"}}})"))
                              .value();
    const std::map<std::string, ModeTarget> expected = {
        {"mig", {"mig.nvidia.com", "gpu.nvidia.com", "memory"}},
        {"mps", {"mps", "d.example", "mem"}}};
    CHECK(settings.target.mode_classes == expected);
}

TEST_CASE("lists and maps replace those of the profile") {
    const auto settings =
        read(
            document(
                R"("profile":"nvidia","target":{"modeClasses":{}},"policy":{"optOutLabels":{"a":["b","c"],"d":""}})"))
            .value();
    CHECK(settings.target.mode_classes.empty());
    const std::set<std::pair<std::string, std::string>> labels = {
        {"a", "b"}, {"a", "c"}, {"d", ""}};
    CHECK(settings.policy.opt_out_labels == labels);
}

/// Settings that differ from the defaults in every field. The structured bindings stop compiling
/// when a field is added, so that no field can be forgotten in the document.
Settings every_field_changed() {
    Settings settings;
    auto& [profile, resources, annotations, defaults, target, policy, memory_sizes, workloads] =
        settings;
    auto& [count, memory, percentage, cores, priority] = resources;
    auto& [use_type, nouse_type, use_uuid, nouse_uuid, numa, mode, node, device, weights] =
        annotations;
    int number = 0;
    for (auto* name : {&count, &memory, &percentage, &cores, &priority, &use_type, &nouse_type,
                       &use_uuid, &nouse_uuid, &numa, &mode, &node, &device, &weights}) {
        *name = fmt::format("example.com/name-{}", ++number);
    }
    profile = "hami";
    auto& [default_count, memory_mib, default_cores, factor] = defaults;
    std::tie(default_count, memory_mib, default_cores, factor) = std::tuple(2, 3, 4, 5);
    auto& [driver, device_class, memory_capacity, cores_capacity, slots_capacity, uuid, product,
           numa_attribute, form, exclusive_memory, shares, mode_classes] = target;
    for (auto* name : {&driver, &device_class, &memory_capacity, &cores_capacity, &slots_capacity,
                       &uuid, &product})
        *name = fmt::format("n{}", ++number);
    numa_attribute = "example.com/numa";
    form = PriorityForm::environment;
    exclusive_memory = ExclusiveMemory::drop;
    shares = false;
    auto& [mode_class, mode_driver, mode_memory] = mode_classes["mps"];
    std::tie(mode_class, mode_driver, mode_memory) = std::tuple("c", "d.example", "m");
    auto& [privileged, old_server, plain_count, mutex, core_policy, hide, runtime_class, max_memory,
           warn_below, legacy_scheduler, scheduler, capable, labels] = policy;
    std::tie(privileged, old_server, plain_count) =
        std::tuple(Deny::no, OldServer::passthrough, PlainCount::leave);
    std::tie(mutex, core_policy, hide) = std::tuple(Mutex::ignore, CorePolicy::force, true);
    std::tie(runtime_class, max_memory, warn_below) = std::tuple("nvidia", 100, 1);
    std::tie(legacy_scheduler, scheduler) = std::tuple("old", "new");
    capable = {"volcano"};
    labels = {{"a/b", "c"}, {"a/b", "d"}, {"e", ""}};
    memory_sizes = {1 << 20, (1 << 20) + 1, 3 << 20, (3 << 20) + 1024, std::int64_t{1} << 50};
    auto& [group, kind, paths] = workloads.emplace_back();
    std::tie(group, kind, paths) =
        std::tuple("g.example", "Kind", std::vector<std::string>{"/a/*/b", "/c~1d"});
    return settings;
}

TEST_CASE("every field comes back from the document it is written to") {
    const Settings settings = every_field_changed();
    const auto read_back = read(settings_to_json(settings));
    REQUIRE_MESSAGE(read_back, read_back.error().message);
    CHECK(*read_back == settings);
    for (const std::string_view profile : {"drawbridge", "hami", "nvidia"}) {
        CAPTURE(profile);
        const auto original = profile_settings(profile).value();
        CHECK(read(settings_to_json(original)).value() == original);
    }
}

/// A visitor that gives each field a random value that keeps its rule.
class RandomFields {
public:
    explicit RandomFields(unsigned seed) : random_(seed) {}

    void text(std::string_view /*key*/, std::string& field, const TextRule& rule) {
        field = any(rule);
    }
    void texts(std::string_view /*key*/, std::vector<std::string>& field, const TextRule& rule) {
        field.clear();
        for (auto count = below(3); count >= 0; --count)
            field.push_back(any(rule));
    }
    void modes(std::string_view /*key*/, std::map<std::string, ModeTarget>& field) {
        for (auto count = below(3); count > 0; --count)
            visit_mode(*this, field[below(2) == 1 ? "mig" : "mps"]);
    }
    void integer(std::string_view /*key*/, std::int64_t& field, const IntegerRule& rule) {
        field = std::uniform_int_distribution<std::int64_t>(rule.min, rule.max)(random_);
    }
    void boolean(std::string_view /*key*/, bool& field) { field = below(2) == 1; }
    template <class T, std::size_t Count>
    void choice(std::string_view /*key*/, T& field, const std::array<Choice<T>, Count>& words) {
        field = words[static_cast<std::size_t>(below(Count))].value;
    }
    void labels(std::string_view /*key*/, std::set<std::pair<std::string, std::string>>& field) {
        for (auto count = below(4); count > 0; --count)
            field.emplace(any(rules::label_name), any(rules::label_value));
    }
    void sizes(std::string_view /*key*/, std::vector<std::int64_t>& field) {
        for (auto size = (1 << 20) + below(1 << 20); below(3) > 0 && field.size() < 8;
             size *= 2 << below(4))
            field.push_back(size);
    }
    void workloads(std::string_view /*key*/, std::vector<WorkloadKind>& field) {
        for (auto count = below(3); count > 0; --count) {
            WorkloadKind& workload = field.emplace_back();
            text("", workload.api_group, rules::api_group_or_core);
            text("", workload.kind, rules::kind_name);
            texts("", workload.pod_template_paths, rules::pod_template_path);
        }
    }
    template <class Fields>
    void section(std::string_view /*key*/, const Fields& fields) {
        fields();
    }

private:
    std::int64_t below(std::int64_t end) {
        return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random_);
    }

    std::string any(const TextRule& rule) {
        for (;;) {
            const auto n = below(std::int64_t{1} << 60);
            const std::array candidates = {fmt::format("example.com/N{}", n),
                                           fmt::format("n{}.example.com", n), fmt::format("N{}", n),
                                           fmt::format("/spec/*/a~0b~1{}", n), std::string()};
            const auto& candidate = candidates[static_cast<std::size_t>(below(candidates.size()))];
            if (rule.holds(candidate)) return candidate;
        }
    }

    std::mt19937 random_;
};

TEST_CASE("any valid settings come back from the document they are written to") {
    for (unsigned seed = 0; seed < 2000; ++seed) {
        CAPTURE(seed);
        Settings settings;
        RandomFields random(seed);
        visit_fields(random, settings);
        Target& target = settings.target;
        target.shares =
            target.shares && !target.memory_capacity.empty() && !target.cores_capacity.empty();
        settings.policy.warn_below_mib =
            std::min(settings.policy.warn_below_mib, settings.policy.max_memory_mib);
        const auto read_back = read(settings_to_json(settings));
        REQUIRE_MESSAGE(read_back, read_back.error().message);
        REQUIRE(*read_back == settings);
    }
}

}  // namespace
}  // namespace drawbridge::translate
