#include "translate/translate.hpp"

#include "translate/notes.hpp"
#include "translate/translate_create.hpp"
#include "translate/translate_update.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace drawbridge::translate {

namespace {

Diagnostic about_template(Code code, std::string field, std::string_view name,
                          std::string message) {
    Diagnostics diagnostics;
    report(
        diagnostics, code,
        {kube::PointerPath() / "spec" / "resourceClaims", {}, std::move(field), std::string(name)},
        std::move(message));
    return std::move(diagnostics.front());
}

}  // namespace

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
    return about_template(Code::template_missing, "resourceClaims", name,
                          fmt::format("the pod names template {}, which does not exist", name));
}

Diagnostic conflicting_template(std::string_view name) {
    return about_template(
        Code::template_conflict, "resourceClaimTemplateName", name,
        fmt::format("the ResourceClaimTemplate {} exists in the namespace with other content",
                    name));
}

}  // namespace drawbridge::translate
