#include "certs/pem.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

namespace drawbridge::certs {
namespace {

using base::ErrorKind;
using base::fail;

/// Chains longer than this are a mistake or an attack; a bundle of authorities is short as well.
constexpr std::size_t max_certificates = 32;
constexpr std::size_t max_pem_bytes = 1U << 20U;

/// Called where OpenSSL wants a password: says only that it did.
int note_password_wanted(char* /*buffer*/, int /*size*/, int /*writing*/, void* wanted) {
    *static_cast<bool*>(wanted) = true;
    return -1;
}

base::Result<std::string> content_of(BIO& bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(&bio, &data);
    if (size <= 0)
        return fail(ErrorKind::internal, "PEM could not be written: " + take_openssl_error());
    return std::string(data, static_cast<std::size_t>(size));
}

}  // namespace

base::Result<std::vector<X509Ptr>> certificates_from_pem(std::string_view pem) {
    if (pem.size() > max_pem_bytes)
        return fail(ErrorKind::invalid_input, "certificate file is over 1 MiB");
    ERR_clear_error();
    const BioPtr bio = bio_on(pem);
    if (!bio) return fail(ErrorKind::internal, take_openssl_error());
    std::vector<X509Ptr> certificates;
    while (X509Ptr certificate{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
        if (certificates.size() == max_certificates) {
            return fail(ErrorKind::invalid_input,
                        fmt::format("more than {} certificates", max_certificates));
        }
        certificates.push_back(std::move(certificate));
    }
    const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    const std::string error = take_openssl_error();
    if (!at_end) {
        return fail(ErrorKind::invalid_input,
                    fmt::format("certificate {} is broken: {}", certificates.size() + 1, error));
    }
    if (certificates.empty()) return fail(ErrorKind::invalid_input, "no PEM certificate found");
    return certificates;
}

base::Result<KeyPtr> key_from_pem(std::string_view pem) {
    if (pem.size() > max_pem_bytes) return fail(ErrorKind::invalid_input, "key file is over 1 MiB");
    if (pem.find("-----BEGIN ") == std::string_view::npos) {
        return fail(ErrorKind::invalid_input, "no PEM private key found");
    }
    ERR_clear_error();
    const BioPtr bio = bio_on(pem);
    if (!bio) return fail(ErrorKind::internal, take_openssl_error());
    bool password_wanted = false;
    KeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, note_password_wanted, &password_wanted));
    const std::string error = take_openssl_error();
    if (password_wanted) {
        return fail(ErrorKind::invalid_input,
                    "the private key is encrypted; store it without a password");
    }
    if (!key) return fail(ErrorKind::invalid_input, "no readable PEM private key: " + error);
    return key;
}

base::Result<std::string> to_pem(X509& certificate) {
    const BioPtr bio(BIO_new(BIO_s_mem()));
    if (!bio || PEM_write_bio_X509(bio.get(), &certificate) != 1) {
        return fail(ErrorKind::internal, take_openssl_error());
    }
    return content_of(*bio);
}

base::Result<std::string> to_pem(EVP_PKEY& key) {
    const BioPtr bio(BIO_new(BIO_s_secmem()));
    if (!bio || PEM_write_bio_PKCS8PrivateKey(bio.get(), &key, nullptr, nullptr, 0, nullptr,
                                              nullptr) != 1) {
        return fail(ErrorKind::internal, take_openssl_error());
    }
    return content_of(*bio);
}

}  // namespace drawbridge::certs
