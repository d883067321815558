// Settings of any content: refused with a place, or read, written and read again the same; and
// never a crash behind them.

#include "base/json.hpp"
#include "kube/manifest.hpp"
#include "tests/fuzz/laws.hpp"
#include "tests/translate/judge.hpp"
#include "tests/translate/pod_generator.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

using drawbridge::fuzz::law;
namespace base = drawbridge::base;
namespace translate = drawbridge::translate;
namespace oracle = drawbridge::oracle;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const auto manifests =
        drawbridge::kube::read_manifests({reinterpret_cast<const char*>(data), size});
    if (!manifests || manifests->empty()) return 0;
    const auto document = base::parse_json(manifests->front().json);
    law(document.has_value(), "a manifest's value is JSON", manifests->front().json);
    const auto settings = translate::read_settings(document->root());
    if (!settings) {
        law(!settings.error().message.empty(), "a refusal has a reason");
        return 0;
    }
    const auto written = translate::settings_to_json(*settings);
    const auto parsed = base::parse_json(written);
    law(parsed.has_value(), "written settings are JSON", written);
    const auto again = translate::read_settings(parsed->root());
    law(again.has_value(), "written settings can be read", written);
    law(translate::settings_to_json(*again) == written, "and are the same", written);
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        const auto pod = oracle::to_json(oracle::generate_pod(seed), seed);
        const auto translation = oracle::translate_text(pod, *settings, oracle::sites()[0].cluster);
        const bool changes = translation.verdict == translate::Verdict::translate;
        law(changes || translation.patch.empty(), "only a translation changes", written);
    }
    return 0;
}
