#include "certs/issue.hpp"

#include "certs/pem.hpp"
#include "tests/certs/test_files.hpp"

#include <doctest/doctest.h>
#include <openssl/x509_vfy.h>

#include <set>
#include <string>

namespace drawbridge::certs {
namespace {

using namespace std::chrono_literals;
using test::now;

/// Verifies as a TLS client does: chain, dates at `at`, server purpose, and the host's name or
/// address.
int verify(const PemPair& ca, const PemPair& leaf, const std::string& host, Time at) {
    const auto authority = certificates_from_pem(ca.certificate).value();
    const auto certificate = certificates_from_pem(leaf.certificate).value();
    const std::unique_ptr<X509_STORE, FreeWith<X509_STORE_free>> store(X509_STORE_new());
    X509_STORE_add_cert(store.get(), authority.front().get());
    const std::unique_ptr<X509_STORE_CTX, FreeWith<X509_STORE_CTX_free>> context(
        X509_STORE_CTX_new());
    X509_STORE_CTX_init(context.get(), store.get(), certificate.front().get(), nullptr);
    X509_VERIFY_PARAM* parameters = X509_STORE_CTX_get0_param(context.get());
    X509_VERIFY_PARAM_set_time(parameters, at.time_since_epoch().count());
    X509_VERIFY_PARAM_set_purpose(parameters, X509_PURPOSE_SSL_SERVER);
    X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_X509_STRICT);
    if (X509_VERIFY_PARAM_set1_ip_asc(parameters, host.c_str()) != 1) {
        X509_VERIFY_PARAM_set1_host(parameters, host.c_str(), host.size());
    }
    X509_verify_cert(context.get());
    const int error = X509_STORE_CTX_get_error(context.get());
    (void)take_openssl_error();
    return error;
}

TEST_CASE("an issued certificate verifies strictly for each of its names and for no other") {
    const auto ca = make_ca("test", 48h, now).value();
    const auto leaf = make_leaf(ca, {"localhost", "drawbridge.drawbridge-system.svc"},
                                {"127.0.0.1", "::1"}, 24h, now)
                          .value();
    for (const std::string host :
         {"localhost", "drawbridge.drawbridge-system.svc", "127.0.0.1", "::1"}) {
        CAPTURE(host);
        CHECK(verify(ca, leaf, host, now) == X509_V_OK);
    }
    CHECK(verify(ca, leaf, "example.com", now) == X509_V_ERR_HOSTNAME_MISMATCH);
    CHECK(verify(ca, leaf, "127.0.0.2", now) == X509_V_ERR_IP_ADDRESS_MISMATCH);
}

TEST_CASE("a certificate is valid from five minutes before its making to the end of its lifetime") {
    const auto ca = make_ca("test", 48h, now).value();
    const auto leaf = make_leaf(ca, {"localhost"}, {}, 24h, now).value();
    CHECK(verify(ca, leaf, "localhost", now - 5min) == X509_V_OK);
    CHECK(verify(ca, leaf, "localhost", now - 5min - 1s) == X509_V_ERR_CERT_NOT_YET_VALID);
    CHECK(verify(ca, leaf, "localhost", now + 24h - 1s) == X509_V_OK);
    CHECK(verify(ca, leaf, "localhost", now + 24h) == X509_V_ERR_CERT_HAS_EXPIRED);
}

TEST_CASE("another authority of the same name does not verify the certificate") {
    const auto ca = make_ca("test", 48h, now).value();
    const auto other = make_ca("test", 48h, now).value();
    const auto leaf = make_leaf(ca, {"localhost"}, {}, 24h, now).value();
    CHECK(verify(other, leaf, "localhost", now) != X509_V_OK);
    CHECK_FALSE(is_signed_by(leaf.certificate, other.certificate));
    CHECK(is_signed_by(leaf.certificate, ca.certificate));
}

TEST_CASE("a certificate never outlives its authority") {
    const auto ca = make_ca("test", 10h, now).value();
    const auto leaf = make_leaf(ca, {"localhost"}, {}, 24h, now).value();
    CHECK(read_certificates(leaf.certificate).value().front().not_after == now + 10h);
    CHECK_FALSE(make_leaf(ca, {"localhost"}, {}, 24h, now + 11h));
}

TEST_CASE("certificates carry the extensions that clients ask for") {
    const auto ca = make_ca("test", 48h, now).value();
    const auto leaf = make_leaf(ca, {"localhost"}, {}, 24h, now).value();
    const auto certificate = certificates_from_pem(leaf.certificate).value();
    X509* raw = certificate.front().get();
    CHECK(X509_get_extended_key_usage(raw) == XKU_SSL_SERVER);
    CHECK(X509_get_key_usage(raw) == KU_DIGITAL_SIGNATURE);
    CHECK(X509_get_signature_nid(raw) == NID_ecdsa_with_SHA256);
    CHECK(X509_get0_subject_key_id(raw) != nullptr);
    CHECK(X509_get0_authority_key_id(raw) != nullptr);
    for (const int id : {NID_basic_constraints, NID_key_usage, NID_subject_alt_name}) {
        CAPTURE(id);
        CHECK(X509_EXTENSION_get_critical(X509_get_ext(raw, X509_get_ext_by_NID(raw, id, -1))) ==
              1);
    }
    const auto authority = certificates_from_pem(ca.certificate).value();
    CHECK(X509_get_key_usage(authority.front().get()) == (KU_KEY_CERT_SIGN | KU_CRL_SIGN));
    CHECK(X509_get_pathlen(authority.front().get()) == 0);
    CHECK(read_certificates(ca.certificate).value().front().is_ca);
    CHECK_FALSE(read_certificates(leaf.certificate).value().front().is_ca);
}

TEST_CASE("serial numbers are positive, long and never the same") {
    const auto ca = make_ca("test", 48h, now).value();
    std::set<std::string> serials;
    for (int i = 0; i < 32; ++i) {
        const auto leaf = make_leaf(ca, {"localhost"}, {}, 24h, now).value();
        const auto certificate = certificates_from_pem(leaf.certificate).value();
        const BignumPtr serial(
            ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.front().get()), nullptr));
        CHECK(BN_is_negative(serial.get()) == 0);
        CHECK(BN_num_bits(serial.get()) == 127);
        char* text = BN_bn2hex(serial.get());
        serials.insert(text);
        OPENSSL_free(text);
    }
    CHECK(serials.size() == 32);
}

TEST_CASE("what cannot become a certificate is refused") {
    const auto ca = make_ca("test", 48h, now).value();
    const auto other = make_ca("test", 48h, now).value();
    const auto leaf = make_leaf(ca, {"localhost"}, {}, 24h, now).value();
    CHECK_FALSE(make_ca("", 48h, now));
    CHECK_FALSE(make_ca(std::string(65, 'a'), 48h, now));
    CHECK_FALSE(make_ca("test", 0s, now));
    CHECK_FALSE(make_leaf(ca, {}, {}, 24h, now));
    CHECK_FALSE(make_leaf(ca, {"localhost"}, {}, -1s, now));
    CHECK_FALSE(make_leaf(leaf, {"localhost"}, {}, 24h, now));
    CHECK_FALSE(make_leaf({ca.certificate, other.key}, {"localhost"}, {}, 24h, now));
    // Nothing in a name may add entries or options to the extension.
    for (const std::string name :
         {"", "a,DNS:evil.example", "a b", "dirName:x", "a\nb", "@section"}) {
        CAPTURE(name);
        CHECK_FALSE(make_leaf(ca, {name}, {}, 24h, now));
    }
    for (const std::string address :
         {"", "localhost", "127.0.0.1,DNS:evil.example", "1.2.3", "::1%lo"}) {
        CAPTURE(address);
        CHECK_FALSE(make_leaf(ca, {}, {address}, 24h, now));
    }
}

}  // namespace
}  // namespace drawbridge::certs
