#pragma once
// PEM text to OpenSSL objects and back.

#include "base/result.hpp"
#include "certs/openssl_ptr.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::certs {

/// Every certificate of a PEM text, in order; at least one. Text between them is ignored, a broken
/// one is not.
[[nodiscard]] base::Result<std::vector<X509Ptr>> certificates_from_pem(std::string_view pem);

/// The first private key of a PEM text. An encrypted one is refused without asking anybody for a
/// password.
[[nodiscard]] base::Result<KeyPtr> key_from_pem(std::string_view pem);

[[nodiscard]] base::Result<std::string> to_pem(X509& certificate);
/// PKCS #8, unencrypted.
[[nodiscard]] base::Result<std::string> to_pem(EVP_PKEY& key);

}  // namespace drawbridge::certs
