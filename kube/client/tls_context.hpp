#pragma once
// OpenSSL's view of an Access. Heavy to include; only for http_wire.cpp and http_transport.cpp.

#include "base/result.hpp"
#include "kube/client/api_transport.hpp"

#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream_base.hpp>

#include <memory>
#include <string>

namespace drawbridge::kube::client {

/// A context for TLS 1.2 and later that trusts the authorities of `access` (the system's where it
/// names none) and shows its client certificate. `invalid_input` names the PEM text that cannot be
/// used.
[[nodiscard]] base::Result<std::shared_ptr<boost::asio::ssl::context>> client_context(
    const Access& access);

/// Sets what is verified and announced on one connection; `skip_verify` verifies nothing.
[[nodiscard]] base::Result<void> prepare_handshake(SSL* connection, const std::string& server_name,
                                                   bool skip_verify);

/// Why the last handshake on this connection failed, in the words of OpenSSL's verification; empty:
/// not for that.
[[nodiscard]] std::string verify_failure(SSL* connection);

}  // namespace drawbridge::kube::client
