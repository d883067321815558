#pragma once
// Files of a test, and certificates that `issue` refuses to make.

#include "certs/issue.hpp"
#include "certs/openssl_ptr.hpp"
#include "certs/pem.hpp"
#include "tests/folder.hpp"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace drawbridge::certs::test {

inline constexpr Time now{std::chrono::sys_days{std::chrono::year{2026} / 3 / 1}};

using drawbridge::test::Folder;

inline void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

inline std::string read(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// A pair for localhost by an authority of its own.
inline PemPair pair(std::chrono::seconds lifetime = std::chrono::hours{24}, Time at = now) {
    const auto ca = make_ca("test", std::chrono::hours{48}, at);
    return make_leaf(ca.value(), {"localhost"}, {}, lifetime, at).value();
}

/// What a certificate of the kind that nobody should use is made of.
struct Oddity {
    std::vector<std::pair<int, std::string>> extensions = {{NID_subject_alt_name, "DNS:localhost"}};
    const EVP_MD* digest = EVP_sha256();
    unsigned rsa_bits = 0;  ///< 0: P-256
};

/// A self-signed certificate as the oddity says, valid for a day.
inline PemPair odd_pair(const Oddity& oddity) {
    const KeyPtr key(oddity.rsa_bits == 0 ? EVP_EC_gen("P-256") : EVP_RSA_gen(oddity.rsa_bits));
    const X509Ptr certificate(X509_new());
    X509* raw = certificate.get();
    X509_set_version(raw, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(raw), 1);
    ASN1_TIME_set(X509_getm_notBefore(raw), now.time_since_epoch().count());
    ASN1_TIME_set(X509_getm_notAfter(raw), now.time_since_epoch().count() + 86400);
    X509_set_pubkey(raw, key.get());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(raw), "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
    X509_set_issuer_name(raw, X509_get_subject_name(raw));
    for (const auto& [id, value] : oddity.extensions) {
        const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, nullptr, id, value.c_str()));
        if (!extension || X509_add_ext(raw, extension.get(), -1) != 1)
            throw std::runtime_error("extension");
    }
    if (X509_sign(raw, key.get(), oddity.digest) <= 0) throw std::runtime_error("signature");
    return {to_pem(*certificate).value(), to_pem(*key).value()};
}

}  // namespace drawbridge::certs::test
