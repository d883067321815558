#include "translate/notes.hpp"

#include <algorithm>

namespace drawbridge::translate {

void report(Diagnostics& diagnostics, Code code, Subject subject, std::string message,
            std::string fix) {
    const CodeInfo& about = info(code);
    if (fix.empty()) fix = about.fix;
    diagnostics.push_back({about.severity, code, subject.path.text(), std::move(subject.container),
                           std::move(subject.resource), std::move(subject.value),
                           std::move(message), std::move(fix)});
}

std::string quoted_container(const ContainerView& container) {
    return container.name.empty() ? "a container" : "container \"" + container.name + "\"";
}

bool denies(const Diagnostics& diagnostics) {
    return std::ranges::any_of(diagnostics, [](const Diagnostic& diagnostic) {
        return diagnostic.severity == Severity::denied;
    });
}

}  // namespace drawbridge::translate
