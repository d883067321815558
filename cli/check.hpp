#pragma once
// `drawbridge check`: can this cluster do it, and if not, what is missing.

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::cli {

struct CheckOptions {
    std::string kubeconfig =
        {};  ///< file; empty: KUBECONFIG, the pod's own account, ~/.kube/config
    std::string context = {};
    std::string settings = {};  ///< file; empty: the built-in profile
    std::string name_space = "drawbridge-system";
    std::string account = "drawbridge-webhook";
    bool json = false;  ///< one JSON object a line
};

enum class CheckState {
    good,
    unknown,  ///< could not be found out, or is only worth knowing
    bad
};

/// One thing that was looked at.
struct Finding {
    CheckState state = CheckState::good;
    std::string_view subject;  ///< a fixed word: `api`, `version`, `gates`, `rights`, ...
    std::string text;
    std::string fix = {};  ///< what to do; empty where nothing is to be done
};

/// The findings as text, one a line with the fix below it, or as JSON lines.
[[nodiscard]] std::string write_findings(const std::vector<Finding>& findings, bool json);

/// 0: nothing is bad, 2: something is.
[[nodiscard]] int check_status(const std::vector<Finding>& findings);

/// Asks the cluster; writes nothing in it. A cluster that cannot be reached is a finding; settings
/// or credentials that cannot be read are a failure, which says nothing of the cluster.
[[nodiscard]] base::Result<std::vector<Finding>> run_check(const CheckOptions& options);

}  // namespace drawbridge::cli
