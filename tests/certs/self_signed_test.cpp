#include "certs/self_signed.hpp"

#include "tests/certs/test_files.hpp"

#include <doctest/doctest.h>

#include <array>
#include <future>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace drawbridge::certs {
namespace {

using namespace std::chrono_literals;
using test::now;
using days = std::chrono::days;

unsigned mode_of(const std::filesystem::path& path) {
    struct stat status {};
    ::stat(path.c_str(), &status);
    return status.st_mode & 07777U;
}

std::size_t certificates_in(const std::filesystem::path& path) {
    return read_certificates(test::read(path)).value().size();
}

/// Whether the folder's pair is usable and verified by its bundle's first certificate.
bool is_whole(const SelfSignedFiles& files, Time at) {
    const std::string certificate = test::read(files.certificate);
    return inspect_pair(certificate, test::read(files.key), at).has_value() &&
           is_signed_by(certificate, test::read(files.ca_bundle));
}

TEST_CASE("an empty place becomes a folder with a usable pair, keys readable by their owner only") {
    const test::Folder folder;
    const auto made = load_or_make(folder.path() / "deep" / "tls", now).value();
    CHECK(made.done == RotationStep::renew_ca);
    CHECK(is_whole(made.files, now));
    CHECK(mode_of(made.files.key) == 0600U);
    CHECK(mode_of(made.files.ca_key) == 0600U);
    CHECK(mode_of(made.files.certificate) == 0644U);
    CHECK(mode_of(made.files.ca_bundle) == 0644U);
    CHECK(mode_of(folder.path() / "deep" / "tls") == 0700U);
    CHECK(made.leaf.ip_addresses == std::vector<std::string>{"127.0.0.1", "::1"});
    CHECK(made.leaf.dns_names ==
          std::vector<std::string>{"localhost", "drawbridge-webhook.drawbridge-system.svc",
                                   "drawbridge-webhook.drawbridge-system.svc.cluster.local"});
}

TEST_CASE("what is good is kept byte for byte") {
    const test::Folder folder;
    const auto made = load_or_make(folder.path(), now).value();
    const std::string before =
        test::read(made.files.certificate) + test::read(made.files.ca_bundle);
    const auto again = load_or_make(folder.path(), now + days{59}).value();
    CHECK(again.done == RotationStep::keep);
    CHECK(again.leaf.fingerprint == made.leaf.fingerprint);
    CHECK(test::read(made.files.certificate) + test::read(made.files.ca_bundle) == before);
}

TEST_CASE("a leaf is renewed in time under the same authority") {
    const test::Folder folder;
    const auto made = load_or_make(folder.path(), now).value();
    const std::string bundle = test::read(made.files.ca_bundle);
    const auto renewed = load_or_make(folder.path(), now + days{61}).value();
    CHECK(renewed.done == RotationStep::renew_leaf);
    CHECK(renewed.leaf.not_after == now + days{151});
    CHECK(test::read(made.files.ca_bundle) == bundle);
    CHECK(is_whole(made.files, now + days{61}));
}

TEST_CASE(
    "a renewed authority stands before the old one, which stays until its leaves have ended") {
    const test::Folder folder;
    const auto made = load_or_make(folder.path(), now).value();
    const std::string old_ca = test::read(made.files.ca_bundle);
    const Time renewal = now + days{244};
    const auto renewed = load_or_make(folder.path(), renewal).value();
    CHECK(renewed.done == RotationStep::renew_ca);
    CHECK(is_whole(made.files, renewal));
    CHECK(test::read(made.files.ca_bundle).find(old_ca) > 0);
    CHECK(certificates_in(made.files.ca_bundle) == 2);
    CHECK(load_or_make(folder.path(), renewal + days{1}).value().done == RotationStep::keep);
    CHECK(load_or_make(folder.path(), renewal + days{61}).value().done == RotationStep::renew_leaf);
    CHECK(load_or_make(folder.path(), renewal + days{91}).value().done ==
          RotationStep::drop_old_ca);
    CHECK(certificates_in(made.files.ca_bundle) == 1);
    CHECK(load_or_make(folder.path(), renewal + days{91}).value().done == RotationStep::keep);
}

TEST_CASE("whatever is missing or damaged is made anew") {
    struct Row {
        const char* file;
        const char* text;  ///< null: the file is removed
        RotationStep step;
    };
    const std::vector<Row> rows = {
        {"tls.crt", nullptr, RotationStep::renew_leaf},
        {"tls.key", nullptr, RotationStep::renew_leaf},
        {"tls.key", "", RotationStep::renew_leaf},
        {"tls.crt", "half a certif", RotationStep::renew_leaf},
        {"ca.key", nullptr, RotationStep::renew_ca},
        {"ca.key", "x", RotationStep::renew_ca},
        {"ca.crt", nullptr, RotationStep::renew_ca},
        {"ca.crt", "x", RotationStep::renew_ca},
    };
    for (const auto& row : rows) {
        CAPTURE(row.file);
        const test::Folder folder;
        const auto made = load_or_make(folder.path(), now).value();
        if (row.text == nullptr) {
            std::filesystem::remove(folder.path() / row.file);
        } else {
            test::write(folder.path() / row.file, row.text);
        }
        CHECK(load_or_make(folder.path(), now + 1h).value().done == row.step);
        CHECK(is_whole(made.files, now + 1h));
    }
}

TEST_CASE("a lost authority's key keeps its certificate in the bundle for those who trust it") {
    const test::Folder folder;
    const auto made = load_or_make(folder.path(), now).value();
    const std::string old_ca = test::read(made.files.ca_bundle);
    std::filesystem::remove(made.files.ca_key);
    REQUIRE(load_or_make(folder.path(), now + 1h));
    CHECK(test::read(made.files.ca_bundle).find(old_ca) != std::string::npos);
}

TEST_CASE("a pair of another authority or with fewer names is replaced") {
    const test::Folder folder;
    const auto made = load_or_make(folder.path(), now).value();
    const PemPair ca{test::read(made.files.ca_bundle), test::read(made.files.ca_key)};
    for (const auto& pair : {test::pair(), make_leaf(ca, {"localhost"}, {}, 24h, now).value()}) {
        test::write(made.files.certificate, pair.certificate);
        test::write(made.files.key, pair.key);
        CHECK(load_or_make(folder.path(), now).value().done == RotationStep::renew_leaf);
        CHECK(is_whole(made.files, now));
    }
}

TEST_CASE("what others keep in the folder is not written over") {
    const auto foreign = test::pair();
    for (const char* name : {"ca.crt", "tls.crt", "tls.key"}) {
        for (const std::string& text : {foreign.certificate, foreign.key, std::string("notes")}) {
            const test::Folder folder;
            test::write(folder.path() / name, text);
            const auto refused = load_or_make(folder.path(), now);
            REQUIRE_FALSE(refused);
            CHECK(refused.error().path == (folder.path() / name).string());
            CHECK(test::read(folder.path() / name) == text);
            CHECK_FALSE(std::filesystem::exists(folder.path() / "ca.key"));
        }
    }
}

TEST_CASE("several starters of one folder agree on one pair") {
    const test::Folder folder;
    std::array<std::future<std::string>, 4> starters;
    for (auto& starter : starters) {
        starter = std::async(std::launch::async, [&] {
            return load_or_make(folder.path(), now).value().leaf.fingerprint;
        });
    }
    const std::string first = starters.front().get();
    for (std::size_t i = 1; i < starters.size(); ++i)
        CHECK(starters[i].get() == first);
}

TEST_CASE("a folder that cannot be made is an error with its name") {
    const test::Folder folder;
    test::write(folder.path() / "file", "x");
    const auto result = load_or_make(folder.path() / "file" / "tls", now);
    REQUIRE_FALSE(result);
    CHECK(result.error().path == (folder.path() / "file" / "tls").string());
    CHECK_FALSE(load_or_make(folder.path() / "file", now));
}

}  // namespace
}  // namespace drawbridge::certs
