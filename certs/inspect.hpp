#pragma once
// What a certificate says, and whether a certificate and a key make a pair that a server can use.

#include "base/result.hpp"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::certs {

/// UTC, as certificates count it.
using Time = std::chrono::sys_seconds;

/// The facts of one certificate.
struct CertFacts {
    Time not_before{};
    Time not_after{};
    std::vector<std::string> dns_names;
    std::vector<std::string> ip_addresses;  ///< as text, `127.0.0.1` or `::1`
    bool is_ca = false;
    std::string subject;      ///< RFC 2253
    std::string issuer;       ///< RFC 2253
    std::string fingerprint;  ///< SHA-256 of the DER form, lower-case hex
};

/// Reads every certificate of a PEM text, in order, without judging them. `invalid_input`: there is
/// none, or one is broken.
[[nodiscard]] base::Result<std::vector<CertFacts>> read_certificates(std::string_view pem);

/// Whether the first certificate of `ca_pem` signed the first one of `certificate_pem`; false as
/// well where one of them cannot be read. Dates do not matter.
[[nodiscard]] bool is_signed_by(std::string_view certificate_pem, std::string_view ca_pem);

/// The facts of the first certificate of `certificate_pem` (a chain, leaf first), if a server can
/// use it with `key_pem` at `now`. `invalid_input` says why not: no PEM, encrypted key, key of
/// another certificate, expired, not yet valid, no subject alternative name, not meant for servers,
/// a key or signature that is too weak.
[[nodiscard]] base::Result<CertFacts> inspect_pair(std::string_view certificate_pem,
                                                   std::string_view key_pem, Time now);

}  // namespace drawbridge::certs
