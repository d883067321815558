#pragma once
// Base64 as kubeconfig files and ExecCredentials hold it (RFC 4648 section 4, padded).

#include <optional>
#include <string>
#include <string_view>

namespace drawbridge::kube::client {

[[nodiscard]] std::string encode_base64(std::string_view bytes);
/// The bytes of a padded text; line breaks and blanks are skipped, anything else makes it `nullopt`.
[[nodiscard]] std::optional<std::string> decode_base64(std::string_view text);

}  // namespace drawbridge::kube::client
