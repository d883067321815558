#pragma once
// Makes certificate authorities and server certificates: P-256 keys, SHA-256 signatures.

#include "base/result.hpp"
#include "certs/inspect.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::certs {

/// A certificate and its private key (PKCS #8, unencrypted), both as PEM.
struct PemPair {
    std::string certificate;
    std::string key;
};

/// Makes a self-signed authority that may sign leaves only (path length 0). It is valid from five
/// minutes before `now`, since clocks differ, until `now + lifetime`.
[[nodiscard]] base::Result<PemPair> make_ca(std::string_view common_name,
                                            std::chrono::seconds lifetime, Time now);

/// Makes a server certificate for these names, signed by `ca`; valid like `make_ca`, but never
/// longer than the authority. `invalid_input`: no name, a name that is none, or an authority whose
/// key does not match.
[[nodiscard]] base::Result<PemPair> make_leaf(const PemPair& ca,
                                              const std::vector<std::string>& dns_names,
                                              const std::vector<std::string>& ip_addresses,
                                              std::chrono::seconds lifetime, Time now);

}  // namespace drawbridge::certs
