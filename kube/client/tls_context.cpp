#include "kube/client/tls_context.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <string>

namespace drawbridge::kube::client {

namespace asio = boost::asio;
namespace ssl = boost::asio::ssl;
using base::ErrorKind;
using base::Result;

Result<std::shared_ptr<ssl::context>> client_context(const Access& access) {
    boost::system::error_code failure;
    auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
    const auto refuse = [&](std::string_view what) {
        return base::fail(ErrorKind::invalid_input,
                          fmt::format("{} cannot be used: {}", what, failure.message()));
    };
    SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
    // One more record is not worth 2 x 17 KB of buffers while a connection is idle.
    SSL_CTX_set_mode(context->native_handle(), SSL_MODE_RELEASE_BUFFERS);
    if (access.authorities.empty()) {
        context->set_default_verify_paths(failure);
    } else {
        context->add_certificate_authority(asio::buffer(access.authorities), failure);
    }
    if (failure) return refuse("the certificate authority (PEM)");
    if (access.certificate.empty()) return context;
    context->use_certificate_chain(asio::buffer(access.certificate), failure);
    if (failure) return refuse("the client certificate (PEM)");
    context->use_private_key(asio::buffer(access.key), ssl::context::pem, failure);
    if (failure) return refuse("the key of the client certificate (PEM)");
    return context;
}

Result<void> prepare_handshake(SSL* connection, const std::string& server_name, bool skip_verify) {
    SSL_set_verify(connection, skip_verify ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
    boost::system::error_code not_an_address;
    asio::ip::make_address(server_name, not_an_address);
    bool good = true;
    if (not_an_address) {
        good = SSL_set_tlsext_host_name(connection, server_name.c_str()) == 1 &&
               SSL_set1_host(connection, server_name.c_str()) == 1;
        SSL_set_hostflags(connection, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    } else {
        good = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), server_name.c_str()) == 1;
    }
    if (good) return {};
    return base::fail(ErrorKind::invalid_input,
                      fmt::format("\"{}\" cannot be a server name", server_name));
}

std::string verify_failure(SSL* connection) {
    const long result = SSL_get_verify_result(connection);
    return result == X509_V_OK ? std::string() : X509_verify_cert_error_string(result);
}

}  // namespace drawbridge::kube::client
