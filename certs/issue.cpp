#include "certs/issue.hpp"

#include "certs/openssl_ptr.hpp"
#include "certs/pem.hpp"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <string>

namespace drawbridge::certs {
namespace {

using base::ErrorKind;
using base::fail;

constexpr std::chrono::minutes clock_skew{5};
constexpr int serial_bits =
    127;  ///< RFC 5280 4.1.2.2: positive, at most 20 bytes; random, so unguessable
constexpr std::size_t max_common_name = 64;

base::Result<void> openssl_result(bool succeeded, std::string_view what) {
    if (succeeded) return {};
    return fail(ErrorKind::internal, fmt::format("{}: {}", what, take_openssl_error()));
}

bool is_address(const std::string& text) {
    std::array<unsigned char, 16> bytes{};
    return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
           inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

/// What cannot smuggle another entry into the extension's text form. An asterisk may stand for the
/// first label.
bool is_dns_name(std::string_view text) {
    if (text.substr(0, 2) == "*.") text.remove_prefix(2);
    return !text.empty() && text.size() <= 253 && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '.';
    });
}

/// The subject alternative names in the form of x509v3_config(5).
base::Result<std::string> alternative_names(const std::vector<std::string>& dns_names,
                                            const std::vector<std::string>& ip_addresses) {
    std::string text;
    for (const auto& name : dns_names) {
        if (!is_dns_name(name))
            return fail(ErrorKind::invalid_input, fmt::format("\"{}\" is no DNS name", name));
        text += fmt::format("{}DNS:{}", text.empty() ? "" : ",", name);
    }
    for (const auto& address : ip_addresses) {
        if (!is_address(address)) {
            return fail(ErrorKind::invalid_input, fmt::format("\"{}\" is no IP address", address));
        }
        text += fmt::format("{}IP:{}", text.empty() ? "" : ",", address);
    }
    if (text.empty())
        return fail(ErrorKind::invalid_input, "a server certificate needs at least one name");
    return text;
}

bool set_serial(X509& certificate) {
    const BignumPtr serial(BN_new());
    return serial && BN_rand(serial.get(), serial_bits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
           BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(&certificate)) != nullptr;
}

bool set_time(ASN1_TIME* field, Time time) {
    return ASN1_TIME_set(field, time.time_since_epoch().count()) != nullptr;
}

bool set_common_name(X509_NAME* name, std::string_view text) {
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                      reinterpret_cast<const unsigned char*>(text.data()),
                                      static_cast<int>(text.size()), -1, 0) == 1;
}

bool add_extension(X509& certificate, X509& issuer, int id, const std::string& value) {
    X509V3_CTX context{};
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
    const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
    return extension && X509_add_ext(&certificate, extension.get(), -1) == 1;
}

/// A certificate with everything but its names, purposes and signature.
base::Result<X509Ptr> blank_certificate(EVP_PKEY& key, Time not_before, Time not_after) {
    X509Ptr certificate(X509_new());
    const bool done = certificate && X509_set_version(certificate.get(), X509_VERSION_3) == 1 &&
                      set_serial(*certificate) &&
                      set_time(X509_getm_notBefore(certificate.get()), not_before) &&
                      set_time(X509_getm_notAfter(certificate.get()), not_after) &&
                      X509_set_pubkey(certificate.get(), &key) == 1;
    if (auto result = openssl_result(done, "certificate could not be made"); !result) {
        return tl::unexpected(result.error());
    }
    return certificate;
}

struct Extension {
    int id;
    std::string value;
};

/// Adds the extensions in order, signs, and writes both as PEM. The subject's key identifier must
/// come before the authority's, which for a self-signed certificate is the same.
base::Result<PemPair> finish(X509& certificate, EVP_PKEY& key, X509& issuer, EVP_PKEY& issuer_key,
                             const std::vector<Extension>& extensions) {
    bool done = X509_set_issuer_name(&certificate, X509_get_subject_name(&issuer)) == 1;
    for (const auto& [id, value] : extensions)
        done = done && add_extension(certificate, issuer, id, value);
    done = done && X509_sign(&certificate, &issuer_key, EVP_sha256()) > 0;
    if (auto result = openssl_result(done, "certificate could not be signed"); !result) {
        return tl::unexpected(result.error());
    }
    auto certificate_pem = to_pem(certificate);
    if (!certificate_pem) return tl::unexpected(certificate_pem.error());
    auto key_pem = to_pem(key);
    if (!key_pem) return tl::unexpected(key_pem.error());
    return PemPair{std::move(*certificate_pem), std::move(*key_pem)};
}

base::Result<KeyPtr> make_key() {
    KeyPtr key(EVP_EC_gen("P-256"));
    if (!key) return fail(ErrorKind::internal, "key could not be made: " + take_openssl_error());
    return key;
}

base::Result<void> check_lifetime(std::chrono::seconds lifetime) {
    if (lifetime > std::chrono::seconds::zero() && lifetime <= std::chrono::years{100}) return {};
    return fail(ErrorKind::invalid_input,
                "a certificate's lifetime lies between a second and 100 years");
}

}  // namespace

base::Result<PemPair> make_ca(std::string_view common_name, std::chrono::seconds lifetime,
                              Time now) {
    if (common_name.empty() || common_name.size() > max_common_name) {
        return fail(ErrorKind::invalid_input, "a common name has 1 to 64 bytes");
    }
    if (auto valid = check_lifetime(lifetime); !valid) return tl::unexpected(valid.error());
    const auto key = make_key();
    if (!key) return tl::unexpected(key.error());
    const auto certificate = blank_certificate(**key, now - clock_skew, now + lifetime);
    if (!certificate) return tl::unexpected(certificate.error());
    X509& ca = **certificate;
    if (auto named =
            openssl_result(set_common_name(X509_get_subject_name(&ca), common_name), "common name");
        !named) {
        return tl::unexpected(named.error());
    }
    return finish(ca, **key, ca, **key,
                  {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                   {NID_key_usage, "critical,keyCertSign,cRLSign"},
                   {NID_subject_key_identifier, "hash"},
                   {NID_authority_key_identifier, "keyid:always"}});
}

base::Result<PemPair> make_leaf(const PemPair& ca, const std::vector<std::string>& dns_names,
                                const std::vector<std::string>& ip_addresses,
                                std::chrono::seconds lifetime, Time now) {
    if (auto valid = check_lifetime(lifetime); !valid) return tl::unexpected(valid.error());
    const auto names = alternative_names(dns_names, ip_addresses);
    if (!names) return tl::unexpected(names.error());
    const auto ca_facts = read_certificates(ca.certificate);
    if (!ca_facts) return tl::unexpected(ca_facts.error());
    const auto ca_certificates = certificates_from_pem(ca.certificate);
    if (!ca_certificates) return tl::unexpected(ca_certificates.error());
    const auto ca_key = key_from_pem(ca.key);
    if (!ca_key) return tl::unexpected(ca_key.error());
    X509& issuer = *ca_certificates->front();
    if (!ca_facts->front().is_ca || X509_check_private_key(&issuer, ca_key->get()) != 1) {
        (void)take_openssl_error();
        return fail(ErrorKind::invalid_input, "the authority is none, or its key does not match");
    }
    const Time not_after = std::min(now + lifetime, ca_facts->front().not_after);
    const Time not_before = std::max(now - clock_skew, ca_facts->front().not_before);
    if (not_after <= not_before) return fail(ErrorKind::invalid_input, "the authority has expired");
    const auto key = make_key();
    if (!key) return tl::unexpected(key.error());
    const auto certificate = blank_certificate(**key, not_before, not_after);
    if (!certificate) return tl::unexpected(certificate.error());
    // No subject: names stand in the extension, which is critical then (RFC 5280 4.2.1.6).
    return finish(**certificate, **key, issuer, **ca_key,
                  {{NID_basic_constraints, "critical,CA:FALSE"},
                   {NID_key_usage, "critical,digitalSignature"},
                   {NID_ext_key_usage, "serverAuth"},
                   {NID_subject_alt_name, "critical," + *names},
                   {NID_subject_key_identifier, "hash"},
                   {NID_authority_key_identifier, "keyid:always"}});
}

}  // namespace drawbridge::certs
