#include "certs/inspect.hpp"

#include "certs/openssl_ptr.hpp"
#include "certs/pem.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <ctime>
#include <optional>

namespace drawbridge::certs {
namespace {

using base::ErrorKind;
using base::fail;

/// Below this an attacker with means can break it: RSA 2048, P-224 and the like have 112.
constexpr int min_security_bits = 112;

std::optional<Time> time_of(const ASN1_TIME* time) {
    std::tm parts{};
    if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return std::nullopt;
    const std::chrono::year_month_day date{
        std::chrono::year{parts.tm_year + 1900},
        std::chrono::month{static_cast<unsigned>(parts.tm_mon) + 1},
        std::chrono::day{static_cast<unsigned>(parts.tm_mday)}};
    return std::chrono::sys_days{date} + std::chrono::hours{parts.tm_hour} +
           std::chrono::minutes{parts.tm_min} + std::chrono::seconds{parts.tm_sec};
}

std::string text_of(const X509_NAME* name) {
    const BioPtr bio(BIO_new(BIO_s_mem()));
    if (!bio || X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253) < 0) return {};
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

std::string fingerprint_of(const X509& certificate) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    if (X509_digest(&certificate, EVP_sha256(), digest.data(), &size) != 1) return {};
    std::string hex;
    for (unsigned int i = 0; i < size; ++i)
        hex += fmt::format("{:02x}", digest[i]);
    return hex;
}

/// IPv4 and IPv6 addresses as people write them; empty for another length.
std::string address_text(const ASN1_OCTET_STRING& address) {
    const unsigned char* bytes = ASN1_STRING_get0_data(&address);
    const int size = ASN1_STRING_length(&address);
    std::array<char, 64> text{};
    const int family = size == 4 ? AF_INET : AF_INET6;
    if ((size != 4 && size != 16) || inet_ntop(family, bytes, text.data(), text.size()) == nullptr)
        return {};
    return text.data();
}

void read_names(const X509& certificate, CertFacts& facts) {
    const NamesPtr names(static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)));
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
        const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
        if (name->type == GEN_DNS) {
            const ASN1_IA5STRING& dns = *name->d.dNSName;
            facts.dns_names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(&dns)),
                                         static_cast<std::size_t>(ASN1_STRING_length(&dns)));
        } else if (name->type == GEN_IPADD) {
            facts.ip_addresses.push_back(address_text(*name->d.iPAddress));
        }
    }
}

base::Result<CertFacts> facts_of(X509& certificate) {
    const auto not_before = time_of(X509_get0_notBefore(&certificate));
    const auto not_after = time_of(X509_get0_notAfter(&certificate));
    if (!not_before || !not_after)
        return fail(ErrorKind::invalid_input, "the certificate's dates cannot be read");
    CertFacts facts;
    facts.not_before = *not_before;
    facts.not_after = *not_after;
    facts.is_ca = X509_check_ca(&certificate) > 0;
    facts.subject = text_of(X509_get_subject_name(&certificate));
    facts.issuer = text_of(X509_get_issuer_name(&certificate));
    facts.fingerprint = fingerprint_of(certificate);
    read_names(certificate, facts);
    return facts;
}

std::string date_text(Time time) {
    return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(time.time_since_epoch().count()));
}

base::Result<void> check_dates(const CertFacts& facts, Time now) {
    if (now < facts.not_before) {
        return fail(ErrorKind::invalid_input, "the certificate is not yet valid: it begins on " +
                                                  date_text(facts.not_before));
    }
    // OpenSSL counts the last second as over already.
    if (now >= facts.not_after) {
        return fail(ErrorKind::invalid_input,
                    "the certificate has expired: it ended on " + date_text(facts.not_after));
    }
    return {};
}

/// What a TLS client of today refuses, whatever the dates say.
base::Result<void> check_strength(X509& certificate, const EVP_PKEY& key) {
    const int key_bits = EVP_PKEY_get_security_bits(&key);
    if (key_bits < min_security_bits) {
        return fail(ErrorKind::invalid_input,
                    "the key is too weak; use P-256, or RSA with at least 2048 bits");
    }
    int digest = NID_undef;
    int signature_bits = 0;
    std::uint32_t flags = 0;
    if (X509_get_signature_info(&certificate, &digest, nullptr, &signature_bits, &flags) != 1) {
        return fail(ErrorKind::invalid_input, "the certificate's signature is of an unknown kind");
    }
    if (signature_bits < min_security_bits) {
        return fail(ErrorKind::invalid_input,
                    fmt::format("the certificate is signed with {}, which is too weak; use SHA-256",
                                digest == NID_undef ? "an unknown digest" : OBJ_nid2sn(digest)));
    }
    return {};
}

/// Whether clients take it for a server: by its names, and by its key usage where it states one.
base::Result<void> check_purpose(X509& certificate, const CertFacts& facts) {
    if (facts.dns_names.empty() && facts.ip_addresses.empty()) {
        return fail(ErrorKind::invalid_input,
                    "the certificate has no subject alternative name (DNS or IP); clients ignore "
                    "the common name");
    }
    if ((X509_get_extended_key_usage(&certificate) & XKU_SSL_SERVER) == 0) {
        return fail(ErrorKind::invalid_input,
                    "the certificate's extended key usage does not include serverAuth");
    }
    return {};
}

}  // namespace

base::Result<std::vector<CertFacts>> read_certificates(std::string_view pem) {
    const auto certificates = certificates_from_pem(pem);
    if (!certificates) return tl::unexpected(certificates.error());
    std::vector<CertFacts> all;
    for (const auto& certificate : *certificates) {
        auto facts = facts_of(*certificate);
        if (!facts) return tl::unexpected(facts.error());
        all.push_back(std::move(*facts));
    }
    return all;
}

bool is_signed_by(std::string_view certificate_pem, std::string_view ca_pem) {
    const auto leaves = certificates_from_pem(certificate_pem);
    const auto authorities = certificates_from_pem(ca_pem);
    if (!leaves || !authorities) return false;
    X509* leaf = leaves->front().get();
    X509* authority = authorities->front().get();
    const bool result = X509_check_issued(authority, leaf) == X509_V_OK &&
                        X509_verify(leaf, X509_get0_pubkey(authority)) == 1;
    (void)take_openssl_error();
    return result;
}

base::Result<CertFacts> inspect_pair(std::string_view certificate_pem, std::string_view key_pem,
                                     Time now) {
    const auto certificates = certificates_from_pem(certificate_pem);
    if (!certificates) return tl::unexpected(certificates.error());
    const auto key = key_from_pem(key_pem);
    if (!key) return tl::unexpected(key.error());
    X509& leaf = *certificates->front();
    const bool matches = X509_check_private_key(&leaf, key->get()) == 1;
    (void)take_openssl_error();
    if (!matches)
        return fail(ErrorKind::invalid_input, "the private key does not match the certificate");
    auto facts = facts_of(leaf);
    if (!facts) return facts;
    const auto usable = check_dates(*facts, now)
                            .and_then([&] { return check_strength(leaf, **key); })
                            .and_then([&] { return check_purpose(leaf, *facts); });
    if (!usable) return tl::unexpected(usable.error());
    return facts;
}

}  // namespace drawbridge::certs
