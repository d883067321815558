#pragma once
// The certificate and key that connections are served with, swapped as a whole.

#include "base/result.hpp"
#include "server/snapshot.hpp"

#include <memory>
#include <string_view>

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace drawbridge::server {

/// An OpenSSL context that is ready to accept connections: TLS 1.2 or later, `http/1.1` by ALPN.
/// A connection keeps the one it began with.
using TlsIdentity = std::shared_ptr<ssl_ctx_st>;

/// Makes an identity of a PEM chain (leaf first) and its key. With `client_ca` (PEM) every client
/// must show a certificate of one of these authorities.
[[nodiscard]] base::Result<TlsIdentity> make_tls_identity(std::string_view certificate,
                                                          std::string_view key,
                                                          std::string_view client_ca);

/// The current identity; null until a usable pair was found.
using TlsIdentityHolder = Snapshot<ssl_ctx_st>;

}  // namespace drawbridge::server
