#include "server/tls_identity.hpp"

#include "certs/openssl_ptr.hpp"
#include "certs/pem.hpp"

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <string>

namespace drawbridge::server {
namespace {

using certs::bio_on;
using certs::KeyPtr;
using certs::X509Ptr;

tl::unexpected<base::Error> tls_failure(std::string_view doing) {
    std::string text(doing);
    text += ": ";
    text += certs::take_openssl_error();
    return base::fail(base::ErrorKind::invalid_input, std::move(text));
}

/// Webhooks are called with HTTP/1.1; a client that offers only other protocols goes on without.
int select_http11(SSL*, const unsigned char** out, unsigned char* out_length,
                  const unsigned char* offered, unsigned int length, void*) {
    static constexpr unsigned char http11[] = "\x08http/1.1";
    unsigned char* chosen = nullptr;
    const int found =
        SSL_select_next_proto(&chosen, out_length, http11, sizeof http11 - 1, offered, length);
    if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

base::Result<void> use_certificate(SSL_CTX* context, std::string_view certificate) {
    const auto bio = bio_on(certificate);
    const X509Ptr leaf(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!leaf || SSL_CTX_use_certificate(context, leaf.get()) != 1) {
        return tls_failure("certificate");
    }
    while (X509Ptr next{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
        if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return tls_failure("chain");
    }
    static_cast<void>(certs::take_openssl_error());  // the end of the PEM text
    return {};
}

base::Result<void> use_key(SSL_CTX* context, std::string_view pem) {
    const auto bio = bio_on(pem);
    const auto no_password = [](char*, int, int, void*) { return 0; };
    const KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
    if (!key || SSL_CTX_use_PrivateKey(context, key.get()) != 1) return tls_failure("key");
    if (SSL_CTX_check_private_key(context) != 1) return tls_failure("key of another certificate");
    return {};
}

base::Result<void> demand_client(SSL_CTX* context, std::string_view authorities) {
    const auto certificates = certs::certificates_from_pem(authorities);
    if (!certificates) {
        return base::fail(base::ErrorKind::invalid_input,
                          "client authorities: " + certificates.error().message);
    }
    X509_STORE* const store = SSL_CTX_get_cert_store(context);
    for (const X509Ptr& authority : *certificates) {
        if (X509_STORE_add_cert(store, authority.get()) != 1 ||
            SSL_CTX_add_client_CA(context, authority.get()) != 1) {
            return tls_failure("client authorities");
        }
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    return {};
}

void set_protocol(SSL_CTX* context) {
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(
        context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_cipher_list(context, "ECDHE+AESGCM:ECDHE+CHACHA20");
    SSL_CTX_set_alpn_select_cb(context, select_http11, nullptr);
    // Resumption must not carry a verified client over to another context.
    static constexpr unsigned char session_context[] = "drawbridge";
    SSL_CTX_set_session_id_context(context, session_context, sizeof session_context - 1);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);  // tickets alone resume
    SSL_CTX_set_num_tickets(context, 1);
}

}  // namespace

base::Result<TlsIdentity> make_tls_identity(std::string_view certificate, std::string_view key,
                                            std::string_view client_ca) {
    TlsIdentity context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
    if (!context) return tls_failure("TLS context");
    set_protocol(context.get());
    if (auto used = use_certificate(context.get(), certificate); !used) {
        return tl::unexpected(used.error());
    }
    if (auto used = use_key(context.get(), key); !used) return tl::unexpected(used.error());
    if (!client_ca.empty()) {
        if (auto used = demand_client(context.get(), client_ca); !used) {
            return tl::unexpected(used.error());
        }
    }
    return context;
}

}  // namespace drawbridge::server
