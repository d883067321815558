#pragma once
// Reads a translation back as a cluster would: the patch applied to the pod by another
// implementation of RFC 6902, the templates from their JSON, and what a scheduler charges a device
// for a claim.

#include "tests/translate/cel_model.hpp"
#include "translate/translate.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace drawbridge::oracle {

/// The answer is not one that a cluster could take, or not the right one.
struct Wrong : std::runtime_error {
    using std::runtime_error::runtime_error;
};
void require(bool condition, const std::string& reason);

/// One way to fulfil a request.
struct Alternative {
    std::string device_class;
    std::int64_t count = 1;
    std::vector<std::string> selectors;
    std::map<std::string, std::int64_t> amounts;

    /// Whether every selector takes the device. An expression that fails is `Wrong`.
    [[nodiscard]] bool takes(const ModelDevice& device) const;
    /// What the device is charged, by capacity: a capacity not named is charged in full
    /// (dra.md 2.1, design.md 4).
    [[nodiscard]] std::map<std::string, std::int64_t> charge(const ModelDevice& device) const;
};

struct Request {
    std::string name;
    std::vector<Alternative> alternatives;
};

struct Constraint {
    std::set<std::string> requests;
    std::string attribute;
    bool distinct = false;
};

struct Claim {
    std::vector<Request> requests;
    std::vector<Constraint> constraints;
    std::optional<std::int64_t> priority;
    std::string core_policy;

    [[nodiscard]] std::int64_t count() const;
    [[nodiscard]] bool covers_all(const Constraint& constraint) const;
};

/// A translated pod.
struct ReadPod {
    nlohmann::json before;
    nlohmann::json after;
    std::map<std::string, Claim> claims;           ///< our entries of resourceClaims by name
    std::map<std::string, std::string> templates;  ///< entry -> name of its template
    std::map<std::string, std::string> claim_of;   ///< container -> our entry that it uses
};

/// Applies and reads; `Wrong` where an API server would refuse it, or where it is not written as
/// ours.
[[nodiscard]] ReadPod read_translation(const std::string& pod,
                                       const translate::Translation& translation,
                                       const translate::Settings& settings);

/// A template as written for an API server.
[[nodiscard]] Claim read_template(const nlohmann::json& claim_template,
                                  const translate::Settings& settings);

/// The containers of a pod, init containers first.
[[nodiscard]] std::vector<nlohmann::json> containers_of(const nlohmann::json& pod);

[[nodiscard]] bool is_label(const std::string& text);

}  // namespace drawbridge::oracle
