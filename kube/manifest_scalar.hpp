#pragma once
// What a YAML scalar means to Kubernetes: the types that its YAML reader gives to texts without
// quotes, and the texts that need quotes because of it.

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace drawbridge::kube {

enum class ScalarKind { null, boolean, integer, real, string };

struct Scalar {
    ScalarKind kind = ScalarKind::null;
    std::string text;   ///< a string as it is, everything else as JSON (not finite numbers: empty)
    double real = 0.0;  ///< of a `real`
};

/// A scalar without tag and quotes. The rules are those of sigs.k8s.io/yaml 1.6, which reads with
/// go.yaml.in/yaml/v2: YAML 1.1 with `y` and `off`, octal `012`, `0b11`, `1_000`, but no base 60,
/// and dates stay strings. tests/kube/manifest_scalar_test.cpp holds that reader's own answers.
[[nodiscard]] Scalar resolve_plain(std::string_view text);

/// A scalar with an explicit tag (`tag:yaml.org,2002:int`, ...); tags of others mean a string.
[[nodiscard]] base::Result<Scalar> resolve_tagged(std::string_view tag, std::string_view text);

/// The member name that the reader makes of a scalar in the place of a key; an error for null and
/// for whole numbers above 2^63-1, which it refuses.
[[nodiscard]] base::Result<std::string> key_text(const Scalar& scalar);

/// Whether a string can stand in block style without quotes and is read back as this string, by
/// Kubernetes and by readers that know dates and base 60.
[[nodiscard]] bool is_safe_plain(std::string_view text);

}  // namespace drawbridge::kube
