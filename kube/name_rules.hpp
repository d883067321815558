#pragma once
// Which texts Kubernetes takes as names.

#include <string_view>

namespace drawbridge::kube {

/// RFC 1123 label, at most 63 characters: claim entries, request names, namespaces.
[[nodiscard]] bool is_dns_label(std::string_view text);
/// RFC 1123 subdomain, at most 253 characters: drivers, classes, object names.
[[nodiscard]] bool is_dns_subdomain(std::string_view text);
/// `[prefix/]name`: resource names, annotation and label keys.
[[nodiscard]] bool is_qualified_name(std::string_view text);

}  // namespace drawbridge::kube
