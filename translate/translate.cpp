#include "translate/translate.hpp"

#include "translate/notes.hpp"
#include "translate/translate_create.hpp"
#include "translate/translate_update.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::translate {

std::string_view name(Verdict verdict) {
    switch (verdict) {
        case Verdict::leave:
            return "leave";
        case Verdict::translate:
            return "translate";
        case Verdict::deny:
            return "deny";
    }
    return "";
}

Translation translate_pod(const PodReview& review, const Settings& settings,
                          const Cluster& cluster) {
    Translation result = review.operation == Operation::create
                             ? translate_create(review, settings, cluster)
                             : translate_update(review, settings);
    std::ranges::stable_sort(result.diagnostics, std::greater(), &Diagnostic::severity);
    return result;
}

Diagnostic missing_template(std::string_view name) {
    Diagnostics diagnostics;
    report(
        diagnostics, Code::template_missing,
        {kube::PointerPath() / "spec" / "resourceClaims", {}, "resourceClaims", std::string(name)},
        fmt::format("the pod names template {}, which does not exist", name));
    return std::move(diagnostics.front());
}

}  // namespace drawbridge::translate
