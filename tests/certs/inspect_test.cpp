#include "certs/inspect.hpp"

#include "tests/certs/test_files.hpp"

#include <doctest/doctest.h>
#include <openssl/pem.h>

#include <string>

namespace drawbridge::certs {
namespace {

using namespace std::chrono_literals;
using test::now;

std::string problem(const std::string& certificate, const std::string& key, Time at = now) {
    const auto facts = inspect_pair(certificate, key, at);
    return facts ? "" : facts.error().message;
}

bool mentions(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

std::string encrypted(const std::string& key_pem, bool traditional) {
    const auto key = key_from_pem(key_pem).value();
    const BioPtr bio(BIO_new(BIO_s_mem()));
    char password[] = "secret";
    if (traditional) {
        PEM_write_bio_PrivateKey_traditional(bio.get(), key.get(), EVP_aes_256_cbc(),
                                             reinterpret_cast<unsigned char*>(password), 6, nullptr,
                                             nullptr);
    } else {
        PEM_write_bio_PKCS8PrivateKey(bio.get(), key.get(), EVP_aes_256_cbc(), password, 6, nullptr,
                                      nullptr);
    }
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<std::size_t>(size)};
}

TEST_CASE("the facts of a usable pair are those of its first certificate") {
    const auto ca = make_ca("test authority", 48h, now).value();
    const auto leaf =
        make_leaf(ca, {"localhost", "a.example"}, {"127.0.0.1", "::1"}, 24h, now).value();
    const auto facts = inspect_pair(leaf.certificate + ca.certificate, leaf.key, now).value();
    CHECK(facts.not_before == now - 5min);
    CHECK(facts.not_after == now + 24h);
    CHECK(facts.dns_names == std::vector<std::string>{"localhost", "a.example"});
    CHECK(facts.ip_addresses == std::vector<std::string>{"127.0.0.1", "::1"});
    CHECK_FALSE(facts.is_ca);
    CHECK(facts.issuer == "CN=test authority");
    CHECK(facts.fingerprint.size() == 64);
    CHECK(facts.fingerprint != read_certificates(ca.certificate).value().front().fingerprint);
}

TEST_CASE("all certificates of a bundle are read in order") {
    const auto first = make_ca("first", 48h, now).value();
    const auto second = make_ca("second", 48h, now).value();
    const auto facts =
        read_certificates("a comment\n" + first.certificate + "\n# another\n" + second.certificate)
            .value();
    REQUIRE(facts.size() == 2);
    CHECK(facts[0].subject == "CN=first");
    CHECK(facts[1].subject == "CN=second");
}

TEST_CASE("a pair that no server can use is refused with the reason") {
    const auto pair = test::pair();
    const auto other = test::pair();
    const auto cut = pair.certificate.substr(0, pair.certificate.size() / 2);
    struct Row {
        std::string certificate;
        std::string key;
        std::string_view reason;
    };
    const auto odd = [](const test::Oddity& oddity, std::string_view reason) {
        const auto made = test::odd_pair(oddity);
        return Row{made.certificate, made.key, reason};
    };
    const std::vector<Row> rows = {
        {"", pair.key, "no PEM certificate"},
        {"hello", pair.key, "no PEM certificate"},
        {pair.key, pair.key, "no PEM certificate"},
        {cut, pair.key, "is broken"},
        {pair.certificate + cut, pair.key, "certificate 2 is broken"},
        {pair.certificate, "", "no PEM private key"},
        {pair.certificate, pair.certificate, "no readable PEM private key"},
        {pair.certificate, pair.key.substr(0, pair.key.size() / 2), "no readable PEM private key"},
        {pair.certificate, other.key, "does not match"},
        {pair.certificate, encrypted(pair.key, false), "encrypted"},
        {pair.certificate, encrypted(pair.key, true), "encrypted"},
        {std::string((1U << 20U) + 1, 'x'), pair.key, "over 1 MiB"},
        {pair.certificate, std::string((1U << 20U) + 1, 'x'), "over 1 MiB"},
        odd({.extensions = {}}, "no subject alternative name"),
        odd({.extensions = {{NID_subject_alt_name, "email:a@example.com"}}},
            "no subject alternative name"),
        odd({.extensions = {{NID_subject_alt_name, "DNS:localhost"},
                            {NID_ext_key_usage, "clientAuth"}}},
            "serverAuth"),
        odd({.digest = EVP_sha1()}, "too weak"),
        odd({.rsa_bits = 1024}, "key is too weak"),
    };
    for (const auto& row : rows) {
        CAPTURE(row.reason);
        const std::string found = problem(row.certificate, row.key);
        CAPTURE(found);
        CHECK(mentions(found, row.reason));
    }
}

TEST_CASE("dates are judged by the time given") {
    const auto pair = test::pair(24h);
    CHECK(problem(pair.certificate, pair.key, now + 24h - 1s).empty());
    CHECK(problem(pair.certificate, pair.key, now + 24h) ==
          "the certificate has expired: it ended on 2026-03-02 00:00:00 UTC");
    CHECK(problem(pair.certificate, pair.key, now - 6min) ==
          "the certificate is not yet valid: it begins on 2026-02-28 23:55:00 UTC");
}

TEST_CASE("certificates of other makes are good as well") {
    CHECK(problem(test::odd_pair({}).certificate, "") != "");
    for (const unsigned rsa_bits : {0U, 2048U}) {
        const auto made = test::odd_pair({.rsa_bits = rsa_bits});
        CHECK(problem(made.certificate, made.key).empty());
    }
}

TEST_CASE("a bundle without end is refused") {
    const auto pair = test::pair();
    std::string many;
    for (int i = 0; i < 33; ++i)
        many += pair.certificate;
    CHECK(mentions(problem(many, pair.key), "more than 32"));
}

TEST_CASE("a failed look at a pair leaves no error behind for others on this thread") {
    const auto pair = test::pair();
    CHECK_FALSE(inspect_pair(pair.certificate, test::pair().key, now));
    CHECK_FALSE(inspect_pair("x", pair.key, now));
    CHECK_FALSE(is_signed_by(pair.certificate, pair.certificate));
    CHECK(take_openssl_error() == "unknown error");
}

}  // namespace
}  // namespace drawbridge::certs
