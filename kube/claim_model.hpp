#pragma once
// The part of resource.k8s.io/v1 ResourceClaimTemplate that we write, and reading it back to
// compare.

#include "base/json.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace drawbridge::kube {

/// One way to fulfil a request: the body of `exactly`, or one entry of `firstAvailable`.
struct DeviceAlternative {
    std::string name = {};  ///< only inside firstAvailable
    std::string device_class = {};
    std::int64_t count = 1;
    std::vector<std::string> selectors = {};  ///< CEL expressions
    std::vector<std::pair<std::string, std::string>> capacity =
        {};  ///< capacity name -> quantity text, sorted by name
};

/// One device request: `exactly` where it has one alternative without a name, else
/// `firstAvailable`.
struct DeviceRequest {
    std::string name = {};
    std::vector<DeviceAlternative> alternatives = {};
};

struct DeviceConstraint {
    std::vector<std::string> requests = {};
    std::string match_attribute = {};  ///< fully qualified; exactly one of the two is set
    std::string distinct_attribute = {};
};

struct OpaqueConfig {
    std::vector<std::string> requests = {};
    std::string driver = {};
    std::string parameters = {};  ///< a JSON object as text
};

/// `spec.spec.devices` of a template.
struct ClaimSpec {
    std::vector<DeviceRequest> requests = {};
    std::vector<DeviceConstraint> constraints = {};
    std::vector<OpaqueConfig> config = {};
};

struct ClaimTemplate {
    std::string name = {};
    ClaimSpec spec = {};
};

/// Who writes a template; only those of the server carry the label by which they are watched and
/// swept (design.md decision 18).
enum class TemplateWriter { server, command_line };

/// The content in canonical form: fixed member order, no optional member that is empty. What is
/// hashed.
[[nodiscard]] std::string to_json(const ClaimSpec& spec);
/// The whole object as compact JSON; an empty `name_space` leaves the namespace out.
[[nodiscard]] std::string to_json(const ClaimTemplate& claim_template, std::string_view name_space,
                                  TemplateWriter writer);

/// Reads `/spec/spec/devices` of a template that an API server returned. A field we never write
/// (admin access, tolerations, another allocation mode, ...) is `invalid_input` with its place:
/// such content is not ours.
[[nodiscard]] base::Result<ClaimSpec> claim_spec_from_json(base::JsonView devices);

/// Whether two specs mean the same: quantities compared as numbers (an API server rewrites `4096Mi`
/// as `4Gi`), defaults that a server fills in (`allocationMode`, `count: 1`) ignored, opaque
/// parameters by value, the rest exactly.
[[nodiscard]] bool same_content(const ClaimSpec& left, const ClaimSpec& right);

}  // namespace drawbridge::kube
