// Annotation texts of any content against the oracle: the same devices may serve, no text escapes
// its literal.

#include "base/json.hpp"
#include "kube/cel.hpp"
#include "tests/fuzz/laws.hpp"
#include "tests/translate/judge.hpp"
#include "tests/translate/pod_generator.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

using drawbridge::fuzz::law;
namespace oracle = drawbridge::oracle;

namespace {

/// Annotations, one a line: types wanted and not, uuids wanted and not, mode, policy, NUMA.
oracle::Texts annotations_of(std::string_view text) {
    const drawbridge::translate::AnnotationNames names;
    oracle::Texts found;
    for (const auto& name : {names.use_type, names.nouse_type, names.use_uuid, names.nouse_uuid,
                             names.mode, names.device_policy, names.numa_bind}) {
        const auto line = text.substr(0, std::min(text.find('\n'), text.size()));
        if (line != "-") found[name] = std::string(line);
        if (line.size() == text.size()) break;
        text.remove_prefix(line.size() + 1);
    }
    return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    oracle::PodInput input;
    input.containers = {{"main",
                         oracle::Sort::main,
                         false,
                         {{"nvidia.com/gpu", "2"}, {"nvidia.com/gpumem", "3k"}},
                         {}}};
    input.annotations = annotations_of(text);
    const auto pod = oracle::to_json(oracle::GeneratedPod{input, false, 1}, 1);
    if (!drawbridge::base::parse_json(pod)) return 0;  // no UTF-8
    for (const auto& [name, value] : input.annotations) {
        law(oracle::is_literal_of(drawbridge::kube::cel_quote(value), value),
            "a quoted text means itself", value);
    }
    const auto& site = oracle::sites()[size % 3];
    const auto translation = oracle::translate_text(pod, site.settings, site.cluster);
    const auto right = oracle::answer_of(input, site.settings, site.cluster);
    const auto wrong = oracle::judge(input, pod, right, translation, site.settings, site.cluster);
    law(wrong.empty(), wrong, pod);
    return 0;
}
