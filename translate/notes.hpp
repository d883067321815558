#pragma once
// How the rules report: a diagnostic with its code's own severity, at a place, in one line of code.

#include "kube/json_patch.hpp"
#include "translate/diagnostic.hpp"
#include "translate/pod_view.hpp"

#include <string>
#include <utility>

namespace drawbridge::translate {

/// What a diagnostic is about.
struct Subject {
    kube::PointerPath path;
    std::string container;  ///< empty: the pod
    std::string resource;   ///< resource, annotation or field
    std::string value;      ///< as found
};

/// Adds a diagnostic of the code's severity. `fix` empty: the code's general one.
void report(Diagnostics& diagnostics, Code code, Subject subject, std::string message,
            std::string fix = {});

/// `container "train"`, or `a container` where it has no name.
[[nodiscard]] std::string quoted_container(const ContainerView& container);

}  // namespace drawbridge::translate
