#pragma once
// Keeps the TLS identity in step with its files; a bad pair keeps the old one.

#include "certs/file_source.hpp"
#include "certs/inspect.hpp"
#include "server/metrics.hpp"
#include "server/options.hpp"
#include "server/tls_identity.hpp"

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace drawbridge::server {

/// Polled once a second on one thread.
class CertKeeper {
public:
    CertKeeper(const TlsOptions& options, TlsIdentityHolder& holder, Metrics& metrics);

    /// Makes what is to be self-signed, and takes the first look. An error: the folder of
    /// self-signed certificates cannot be used. A pair of files that is not there yet is none.
    [[nodiscard]] base::Result<void> start(certs::Time now);
    /// Takes a changed pair or changed client authorities into use; renews what is self-signed.
    void poll(certs::Time now);
    /// Whether clients must show a certificate and no authority of theirs was read yet, so that
    /// nobody is let in. From any thread.
    [[nodiscard]] bool lacks_client_authorities() const { return lacks_authorities_; }

private:
    [[nodiscard]] base::Result<void> renew_self_signed(certs::Time now);
    void look(certs::Time now);
    [[nodiscard]] bool look_at_authorities();
    void use_pair();
    void refuse(const base::Error& reason);

    TlsOptions options_;
    TlsIdentityHolder& holder_;
    Metrics& metrics_;
    std::unique_ptr<certs::PairFiles> files_;
    std::optional<certs::NewPair> pair_;  ///< the last complete one
    std::string client_ca_;               ///< text in use
    std::string bad_client_ca_;           ///< reason last reported
    std::atomic<bool> lacks_authorities_{false};
    certs::Time next_renewal_{};
};

}  // namespace drawbridge::server
