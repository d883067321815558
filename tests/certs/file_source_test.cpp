#include "certs/file_source.hpp"

#include "tests/certs/test_files.hpp"

#include <doctest/doctest.h>

#include <string>
#include <sys/stat.h>

namespace drawbridge::certs {
namespace {

using namespace std::chrono_literals;
using test::now;

/// Two files in a folder, and the words that a poll comes to.
class Files {
public:
    void write_certificate(const std::string& text) {
        test::write(folder_.path() / "tls.crt", text);
    }
    void write_key(const std::string& text) { test::write(folder_.path() / "tls.key", text); }
    void write_both(const PemPair& pair) {
        write_certificate(pair.certificate);
        write_key(pair.key);
    }

    /// `unchanged`, `new`, or the reason of a bad pair.
    std::string poll(Time at = now) {
        const auto result = pair_.poll(at);
        if (const auto* bad = std::get_if<BadPair>(&result)) return bad->reason.message;
        if (const auto* fresh = std::get_if<NewPair>(&result)) {
            certificate = fresh->certificate;
            return "new";
        }
        return "unchanged";
    }

    [[nodiscard]] const std::filesystem::path& path() const { return folder_.path(); }

    std::string certificate;  ///< of the last new pair

private:
    test::Folder folder_;
    PairFiles pair_{folder_.path() / "tls.crt", folder_.path() / "tls.key"};
};

constexpr const char* mismatch = "the private key does not match the certificate";

TEST_CASE("a pair is reported once, and again when it changes") {
    Files files;
    const auto first = test::pair();
    files.write_both(first);
    CHECK(files.poll() == "new");
    CHECK(files.certificate == first.certificate);
    CHECK(files.poll() == "unchanged");
    CHECK(files.poll() == "unchanged");
    const auto second = test::pair();
    files.write_both(second);
    CHECK(files.poll() == "new");
    CHECK(files.certificate == second.certificate);
    CHECK(files.poll() == "unchanged");
}

TEST_CASE("writing the same content again is no change") {
    Files files;
    const auto pair = test::pair();
    files.write_both(pair);
    CHECK(files.poll() == "new");
    files.write_both(pair);
    CHECK(files.poll() == "unchanged");
    CHECK(files.poll() == "unchanged");
}

TEST_CASE("a change is seen though size and modification time stay the same") {
    Files files;
    const auto pair = test::pair();
    files.write_key(pair.key);
    files.write_certificate("# a\n" + pair.certificate);
    CHECK(files.poll() == "new");
    CHECK(files.poll() == "unchanged");
    const auto time = std::filesystem::last_write_time(files.path() / "tls.crt");
    files.write_certificate("# b\n" + pair.certificate);
    std::filesystem::last_write_time(files.path() / "tls.crt", time);
    CHECK(files.poll() == "new");
    CHECK(files.certificate == "# b\n" + pair.certificate);
}

TEST_CASE("a pair replaced file by file is never reported half") {
    Files files;
    files.write_both(test::pair());
    CHECK(files.poll() == "new");
    const auto next = test::pair();
    files.write_certificate(next.certificate);
    CHECK(files.poll() == "unchanged");
    files.write_key(next.key);
    CHECK(files.poll() == "new");
    CHECK(files.certificate == next.certificate);
}

TEST_CASE("a file caught in the middle of being written is waited for") {
    Files files;
    files.write_both(test::pair());
    CHECK(files.poll() == "new");
    const auto next = test::pair();
    files.write_key(next.key);
    files.write_certificate(next.certificate.substr(0, 100));
    CHECK(files.poll() == "unchanged");
    files.write_certificate(next.certificate);
    CHECK(files.poll() == "new");
}

TEST_CASE("a bad pair that stays is reported once, and the good one before it is no news") {
    Files files;
    const auto good = test::pair();
    files.write_both(good);
    CHECK(files.poll() == "new");
    files.write_key(test::pair().key);
    CHECK(files.poll() == "unchanged");
    CHECK(files.poll() == mismatch);
    CHECK(files.poll() == "unchanged");
    files.write_key(test::pair().key);
    CHECK(files.poll() == "unchanged");
    CHECK(files.poll() == mismatch);
    files.write_both(good);
    CHECK(files.poll() == "unchanged");
    files.write_key("");
    CHECK(files.poll() == "unchanged");
    CHECK(files.poll() == "no PEM private key found");
}

TEST_CASE("the first poll tells at once why there is no pair") {
    Files files;
    CHECK(files.poll() == "cannot be read: No such file or directory");
    CHECK(files.poll() == "unchanged");
    files.write_both(test::pair());
    CHECK(files.poll() == "new");
}

TEST_CASE("a pair whose time comes later is reported then") {
    Files files;
    files.write_both(test::pair(24h, now + 1h));
    CHECK(files.poll().find("not yet valid") != std::string::npos);
    CHECK(files.poll() == "unchanged");
    CHECK(files.poll(now + 1h) == "new");
    CHECK(files.poll(now + 2h) == "unchanged");
}

TEST_CASE("an expired pair is refused") {
    Files files;
    files.write_both(test::pair(24h));
    CHECK(files.poll(now + 25h).find("expired") != std::string::npos);
}

TEST_CASE("a Kubernetes volume is followed through the switch of its link") {
    const test::Folder folder;
    const auto publish = [&](const std::string& version, const PemPair& pair) {
        std::filesystem::create_directory(folder.path() / version);
        test::write(folder.path() / version / "tls.crt", pair.certificate);
        test::write(folder.path() / version / "tls.key", pair.key);
        std::filesystem::create_symlink(version, folder.path() / "..data_tmp");
        std::filesystem::rename(folder.path() / "..data_tmp", folder.path() / "..data");
    };
    const auto first = test::pair();
    publish("..2026_01", first);
    for (const char* name : {"tls.crt", "tls.key"}) {
        std::filesystem::create_symlink(std::filesystem::path("..data") / name,
                                        folder.path() / name);
    }
    PairFiles files(folder.path() / "tls.crt", folder.path() / "tls.key");
    CHECK(std::holds_alternative<NewPair>(files.poll(now)));
    CHECK(std::holds_alternative<Unchanged>(files.poll(now)));
    const auto second = test::pair();
    publish("..2026_02", second);
    const auto result = files.poll(now);
    REQUIRE(std::holds_alternative<NewPair>(result));
    CHECK(std::get<NewPair>(result).certificate == second.certificate);
    CHECK(std::get<NewPair>(result).key == second.key);
}

TEST_CASE("what is no regular file is refused without waiting for it") {
    Files files;
    ::mkfifo((files.path() / "tls.crt").c_str(), 0600);
    files.write_key(test::pair().key);
    CHECK(files.poll() == "is no regular file");
    std::filesystem::remove(files.path() / "tls.crt");
    std::filesystem::create_directory(files.path() / "tls.crt");
    CHECK(files.poll() == "unchanged");  // the reason is the same
    CHECK(files.poll() == "unchanged");
}

TEST_CASE("a huge file is refused") {
    Files files;
    files.write_both(test::pair());
    files.write_certificate(std::string((1U << 20U) + 1, 'x'));
    CHECK(files.poll().find("1048576") != std::string::npos);
}

}  // namespace
}  // namespace drawbridge::certs
