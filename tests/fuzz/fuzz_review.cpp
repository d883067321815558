// The path of a review without its sockets: decode, translate, apply, translate again, encode.

#include "kube/json_patch.hpp"
#include "server/admission_review.hpp"
#include "tests/fuzz/laws.hpp"
#include "tests/translate/claim_reader.hpp"
#include "tests/translate/pod_generator.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

using drawbridge::fuzz::law;
namespace base = drawbridge::base;
namespace kube = drawbridge::kube;
namespace oracle = drawbridge::oracle;
namespace server = drawbridge::server;
namespace translate = drawbridge::translate;

namespace {

void check_templates(const translate::Translation& translation,
                     const translate::Settings& settings) {
    for (const auto& made : translation.templates) {
        const auto text = kube::to_json(made, "space", kube::TemplateWriter::server);
        try {
            const auto claim = oracle::read_template(nlohmann::json::parse(text), settings);
            for (const auto& request : claim.requests) {
                for (const auto& option : request.alternatives) {
                    (void)option.takes({"foreign", "nic.example.com", {}, {}});
                }
            }
        } catch (const std::exception& wrong) {
            law(false, wrong.what(), text);
        }
    }
}

void check_review(translate::PodReview review, std::string_view uid, const oracle::Site& site) {
    const auto translation = translate::translate_pod(review, site.settings, site.cluster);
    const bool changes = translation.verdict == translate::Verdict::translate;
    law(changes || (translation.patch.empty() && translation.templates.empty()),
        "only a translation changes");
    law((translation.verdict == translate::Verdict::deny) ==
            translate::denies(translation.diagnostics),
        "denied with a denial, and only then");
    for (const auto& found : translation.diagnostics) {
        law(found.severity != translate::Severity::denied || !found.fix.empty(),
            "a denial has a fix", found.message);
    }
    check_templates(translation, site.settings);
    const auto answer = server::encode_answer(uid, translation);
    law(base::parse_json(answer).has_value(), "the answer is JSON", answer);
    if (!changes) return;
    const auto before = review.pod.to_json();
    const auto patched = kube::apply_patch(before, translation.patch);
    law(patched.has_value(), "the patch applies", before);
    const auto after = base::parse_json(*patched);
    law(after.has_value(), "the patched pod is JSON", *patched);
    review.pod = after->root();
    const auto again = translate::translate_pod(review, site.settings, site.cluster);
    law(again.verdict == translate::Verdict::leave && again.templates.empty(),
        "a translated pod is left", *patched);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string body(reinterpret_cast<const char*>(data), size);
    const auto request = server::decode_review(body);
    const auto bare = base::parse_json(body);  // a pod without its envelope is input as well
    for (std::size_t i = 0; i < 3; ++i) {
        const auto& site = oracle::sites()[i];
        translate::PodReview review;
        if (request && request->concerns_pod) {
            review.pod = request->pod;
            review.old_pod = request->old_pod;
            if (request->operation == "UPDATE") review.operation = translate::Operation::update;
            check_review(review, request->uid, site);
        } else if (!request && bare && bare->root().is_object()) {
            review.pod = bare->root();
            check_review(review, "uid", site);
        }
    }
    return 0;
}
