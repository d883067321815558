#include "tests/translate/pod_generator.hpp"

#include <algorithm>
#include <utility>

namespace drawbridge::oracle {
namespace {

using Members = std::vector<std::pair<std::string, std::string>>;  // key -> JSON text

const std::vector<std::string> good_counts{"1", "1", "1",  "2",  "3",     "0",  "6",
                                           "7", "8", "16", "32", "2000m", "1e0"};
const std::vector<std::string> good_memory{"3k",      "3000",  "1",    "8",   "64",     "1000",
                                           "16Ki",    "8192",  "1e3",  "0",   "500000", "20000m",
                                           "4194304", "0.5e3", "+12k", "6000"};
const std::vector<std::string> good_percentages{"50", "25",  "1",   "7", "33",
                                                "99", "100", "100", "0", "1e1"};
const std::vector<std::string> good_cores{"30", "0",   "1",   "50",  "51",  "60",
                                          "99", "100", "100", "101", "150", "1k"};
const std::vector<std::string> good_priorities{"0", "1"};
const std::vector<std::string> bad_values{
    "-1",    "0.5", "1500m",      "8Gi",   "1Gi",  "4G",  "100u", "99500m",
    "101",   "2",   "2147483648", "33",    "1Ei",  "9E",  "1e30", "4194305",
    "-500m", "3K",  "",           "eight", "8 Gi", "0x8", "1e-3", "1e-200"};

std::string value_for(Choice& choice, const std::string& name,
                      const translate::ResourceNames& names) {
    if (choice.chance(2)) return choice.of(bad_values);
    if (name == names.count) return choice.of(good_counts);
    if (name == names.memory) return choice.of(good_memory);
    if (name == names.memory_percentage) return choice.of(good_percentages);
    if (name == names.cores) return choice.of(good_cores);
    return choice.of(good_priorities);
}

void generate_resources(Choice& choice, ContainerInput& container) {
    const translate::ResourceNames names;
    for (const auto& name : {names.count, names.memory, names.memory_percentage, names.cores}) {
        if (choice.chance(name == names.count ? 75 : 40))
            container.limits[name] = value_for(choice, name, names);
    }
    if (choice.chance(8))
        container.limits[names.priority] = value_for(choice, names.priority, names);
    const auto form = choice.below(100);
    if (form < 60) container.requests = container.limits;
    for (const auto& [name, value] : container.limits) {
        if (form >= 85 && choice.chance(60)) container.requests[name] = value;
        if (form >= 97 && choice.chance(30))
            container.requests[name] = value_for(choice, name, names);
    }
    if (form == 99) container.requests[names.memory] = value_for(choice, names.memory, names);
    if (form == 98 && !container.limits.empty()) container.limits.erase(container.limits.begin());
}

void generate_annotations(Choice& choice, Texts& annotations) {
    const translate::AnnotationNames names;
    const std::vector<std::string> types{"A100",         "a10",    "V100, t4", " tesla ",
                                         "NVIDIA-Tesla", "nvidia", "A\"100",   "",
                                         "  ",           "a100,,", "80GB",     "B'\\\n\t x",
                                         "\xE2\x82\xAC", ",",      " , ",      "NVIDIA-nvidia A1"};
    const std::vector<std::string> uuids{"GPU-a", "GPU-a,GPU-b", " GPU-c , ", "gpu-A",
                                         "",      ",",           "GPU-\"q\\"};
    if (choice.chance(25)) annotations[names.use_type] = choice.of(types);
    if (choice.chance(25)) annotations[names.nouse_type] = choice.of(types);
    if (choice.chance(20)) annotations[names.use_uuid] = choice.of(uuids);
    if (choice.chance(20)) annotations[names.nouse_uuid] = choice.of(uuids);
    if (choice.chance(15))
        annotations[names.numa_bind] = choice.of<std::string>({"true", "1", "yes", "false", ""});
    if (choice.chance(10)) {
        annotations[names.mode] =
            choice.of<std::string>({"hami-core", "mig,hami-core", "mig", "", "mps"});
    }
    if (choice.chance(10)) {
        annotations[names.device_policy] = choice.of<std::string>(
            {"binpack", "spread", "mutex", "numa,mutex", " mutex ,spread", "topology-aware"});
    }
    if (choice.chance(10)) annotations[names.node_policy] = "spread";
    if (choice.chance(5)) annotations["hami.io/vgpu-node"] = "node-7";
}

std::string quote(Choice& choice, const std::string& text) {
    constexpr std::string_view hex = "0123456789abcdef";
    const bool strange = choice.chance(10);
    std::string out = "\"";
    for (const char c : text) {
        const auto code = static_cast<unsigned char>(c);
        if (code < 0x20 || (strange && code < 0x80 && choice.chance(30))) {
            out += "\\u00";
            out += {hex[code >> 4U], hex[code & 15U]};
        } else if (c == '"' || c == '\\') {
            out += {'\\', c};
        } else if (c == '/' && strange) {
            out += "\\/";
        } else {
            out += c;
        }
    }
    return out + '"';
}

std::string object(Choice& order, Members members) {
    for (std::size_t i = members.size(); i > 1; --i)
        std::swap(members[i - 1], members[order.below(i)]);
    std::string out = "{";
    for (const auto& [key, value] : members) {
        if (out.size() > 1) out += order.chance(20) ? " ,\n " : ",";
        out += quote(order, key) + (order.chance(20) ? " : " : ":") + value;
    }
    return out + "}";
}

std::string array(const std::vector<std::string>& elements) {
    std::string out = "[";
    for (const auto& element : elements)
        out += (out.size() > 1 ? "," : "") + element;
    return out + "]";
}

std::string text_object(Choice& order, const Texts& texts) {
    Members members;
    for (const auto& [key, value] : texts)
        members.emplace_back(key, quote(order, value));
    return object(order, std::move(members));
}

/// One of limits and requests, by what the dress says: other resources beside ours, bare numbers.
std::string quantities(Choice& dress, Choice& order, const Texts& texts, bool strange) {
    Members members;
    for (const auto& [key, value] : texts) {
        const bool number = strange && !value.empty() && value[0] != '0' && value.size() < 9 &&
                            value.find_first_not_of("0123456789") == std::string::npos &&
                            dress.chance(20);
        members.emplace_back(key, number ? value : quote(order, value));
    }
    if (strange && dress.chance(40)) members.emplace_back("cpu", "\"250m\"");
    if (strange && dress.chance(20)) members.emplace_back("nvidia.com/mig-3g.20gb", "\"1\"");
    return object(order, std::move(members));
}

std::string resources(Choice& dress, Choice& order, const ContainerInput& container, bool strange) {
    Members members;
    for (const auto& [key, texts] :
         {std::pair{"limits", container.limits}, std::pair{"requests", container.requests}}) {
        if (!texts.empty() || (strange && dress.chance(20))) {
            members.emplace_back(key, quantities(dress, order, texts, strange));
        } else if (strange && dress.chance(10)) {
            members.emplace_back(key, "null");
        }
    }
    if (strange && dress.chance(20)) {
        members.emplace_back("claims", dress.chance(20)   ? "null"
                                       : dress.chance(20) ? "[]"
                                                          : R"([{"name":"nic"}])");
    }
    if (strange && dress.chance(20)) members.emplace_back("x-unknown", "[1e40,-0.0,{}]");
    return object(order, std::move(members));
}

std::string container_json(Choice& dress, Choice& order, const ContainerInput& container,
                           bool strange) {
    Members members{{"name", quote(order, container.name)}, {"image", "\"app\""}};
    if (container.sort == Sort::sidecar) members.emplace_back("restartPolicy", "\"Always\"");
    if (container.privileged) members.emplace_back("securityContext", R"({"privileged":true})");
    const bool empty = container.limits.empty() && container.requests.empty();
    if (!empty || (strange && dress.chance(40))) {
        members.emplace_back("resources", resources(dress, order, container, strange));
    } else if (strange && dress.chance(20)) {
        members.emplace_back("resources", "null");
    }
    if (strange && dress.chance(40)) {
        members.emplace_back(
            "env", R"([{"name":"CUDA_TASK_PRIORITY","value":"1"},{"name":"A","value":"\u00e9"}])");
    }
    if (strange && dress.chance(40)) members.emplace_back("x-future", untouchable_pieces()[0]);
    return object(order, std::move(members));
}

std::string metadata_json(Choice& dress, Choice& order, const GeneratedPod& pod) {
    Members members;
    if (dress.chance(70)) members.emplace_back("name", "\"pod\"");
    if (!pod.input.labels.empty())
        members.emplace_back("labels", text_object(order, pod.input.labels));
    auto annotations = pod.input.annotations;
    if (pod.strange && dress.chance(30))
        annotations["note"] =
            "Gr\xC3\xBC\xC3\x9F"
            "e /~ \xF0\x9F\x98\x80";
    if (!annotations.empty()) {
        members.emplace_back("annotations", text_object(order, annotations));
    } else if (pod.strange && dress.chance(30)) {
        members.emplace_back("annotations", dress.chance(50) ? "null" : "{}");
    }
    if (pod.strange) members.emplace_back("x-future", untouchable_pieces()[1]);
    return object(order, std::move(members));
}

std::string spec_json(Choice& dress, Choice& order, const GeneratedPod& pod) {
    std::vector<std::string> mains;
    std::vector<std::string> inits;
    for (const auto& container : pod.input.containers) {
        auto& list = container.sort == Sort::main ? mains : inits;
        list.push_back(container_json(dress, order, container, pod.strange));
    }
    Members members{{"containers", array(mains)}};
    if (!inits.empty()) members.emplace_back("initContainers", array(inits));
    if (inits.empty() && pod.strange && dress.chance(20))
        members.emplace_back("initContainers", "null");
    if (!pod.input.scheduler.empty())
        members.emplace_back("schedulerName", quote(order, pod.input.scheduler));
    if (!pod.input.node_name.empty())
        members.emplace_back("nodeName", quote(order, pod.input.node_name));
    if (pod.strange) {
        members.emplace_back("x-future", untouchable_pieces()[2]);
        members.emplace_back("ephemeralContainers", R"([{"name":"debug","image":"tools"}])");
        const std::vector<std::string> claims{
            "null", "[]", R"([{"name":"nic","resourceClaimTemplateName":"nic"}])",
            R"([{"name":"vgpu-0","resourceClaimName":"mine"},{"name":"vgpu-i0","resourceClaimName":"mine"}])"};
        members.emplace_back("resourceClaims", dress.of(claims));
    }
    return object(order, std::move(members));
}

Site site(std::string name, const std::string& profile, int minor,
          std::vector<std::int64_t> sizes_mib) {
    Site made{std::move(name), translate::profile_settings(profile).value(), {}};
    made.cluster.minor = minor;
    for (const auto size : sizes_mib)
        made.cluster.memory_sizes.push_back(size << 20U);
    return made;
}

std::vector<Site> make_sites() {
    const std::vector<std::int64_t> fleet{16384, 23028, 40960, 81920};
    std::vector<Site> all{
        site("drawbridge on 1.36", "drawbridge", 36, fleet),
        site("drawbridge on 1.35", "drawbridge", 35, fleet),
        site("hami on 1.36", "hami", 36, fleet),
        site("hami on 1.35", "hami", 35, {24576}),
        site("nvidia on 1.36", "nvidia", 36, fleet),
        site("drawbridge without sizes", "drawbridge", 36, {}),
        site("drawbridge with defaults", "drawbridge", 36, fleet),
        site("drawbridge on 1.34", "drawbridge", 34, fleet),
        site("drawbridge on tiny cards", "drawbridge", 36, {50, 100, 101}),
        site("drawbridge on nine sizes", "drawbridge", 36, {1, 2, 3, 4, 5, 6, 7, 8, 9})};
    all[6].settings.defaults = {2, 5000, 10, 2};
    return all;
}

}  // namespace

GeneratedPod generate_pod(std::uint64_t seed) {
    Choice choice(seed);
    GeneratedPod pod;
    const auto inits = choice.chance(40) ? choice.below(3) : 0;
    const auto mains = 1 + (choice.chance(40) ? choice.below(3) : 0);
    for (std::size_t i = 0; i < inits + mains; ++i) {
        ContainerInput container;
        container.sort = i >= inits ? Sort::main : choice.chance(30) ? Sort::sidecar : Sort::init;
        container.name = (i < inits ? "init-" : "main-") + std::to_string(i);
        container.privileged = choice.chance(1);
        if (choice.chance(80)) generate_resources(choice, container);
        pod.input.containers.push_back(std::move(container));
    }
    if (choice.chance(25)) generate_annotations(choice, pod.input.annotations);
    if (choice.chance(1))
        pod.input.labels["hami.io/webhook"] = choice.of<std::string>({"ignore", "other"});
    if (choice.chance(1)) pod.input.namespace_labels["hami.io/webhook"] = "ignore";
    if (choice.chance(1)) pod.input.annotations["kubernetes.io/config.mirror"] = "x";
    if (choice.chance(1)) pod.input.node_name = "node-a";
    if (choice.chance(30))
        pod.input.scheduler = choice.of<std::string>({"default-scheduler", "hami-scheduler"});
    if (choice.chance(1)) pod.input.scheduler = "volcano";
    pod.strange = choice.chance(50);
    pod.dress = seed ^ 0x9E3779B97F4A7C15U;
    return pod;
}

std::string to_json(const GeneratedPod& pod, std::uint64_t order_seed) {
    Choice dress(pod.dress);
    Choice order(order_seed);
    Members members{{"apiVersion", "\"v1\""}, {"kind", "\"Pod\""}};
    members.emplace_back("metadata", metadata_json(dress, order, pod));
    members.emplace_back("spec", spec_json(dress, order, pod));
    if (pod.strange) members.emplace_back("status", untouchable_pieces()[0]);
    return object(order, std::move(members));
}

std::vector<std::string> untouchable_pieces() {
    return {
        R"({"big":123456789012345678901234567890, "float":1.10e+05,"zero":-0.0,"wide":18446744073709551616})",
        R"({"escaped":"\u00e9\/\ud83d\ude00\b", "raw":"Grüße 😀", "":{"~":[ [ ],{ } ]}})",
        R"({"nvidia.com/gpu":"1","limits":{"nvidia.com/gpumem":"3k"},"null":null , "list":[1,2.50,"x",true]})"};
}

const std::vector<Site>& sites() {
    static const auto all = make_sites();
    return all;
}

}  // namespace drawbridge::oracle
