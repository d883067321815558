#include "agent/claim/claim_locks.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <unistd.h>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds patience{30'000};
constexpr milliseconds none{0};

/// The lock file of a node.
class LockFile {
public:
    LockFile() {
        const int file = ::mkstemp(path_.data());
        REQUIRE(file >= 0);
        ::close(file);
    }
    ~LockFile() { ::unlink(path_.c_str()); }
    LockFile(const LockFile&) = delete;
    LockFile& operator=(const LockFile&) = delete;
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    std::string path_ = "/tmp/drawbridge-locks-XXXXXX";
};

}  // namespace

TEST_CASE("what another instance holds is waited for") {
    const LockFile file;
    ClaimLocks one(file.path());
    ClaimLocks two(file.path());
    {
        const auto sums = one.hold_sums(patience);
        REQUIRE(sums);
        const auto refused = two.hold_sums(none);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().kind == ErrorKind::timed_out);
        CHECK(refused.error().message.find("another instance") != std::string::npos);
        const auto claim = two.hold_claim("a", none);
        REQUIRE(claim);
        CHECK(one.hold_claim("b", none));
        CHECK_FALSE(one.hold_claim("a", none));
    }
    CHECK(two.hold_sums(none));
    CHECK(one.hold_claim("a", none));
}

TEST_CASE("what this instance holds is waited for") {
    const LockFile file;
    ClaimLocks locks(file.path());
    {
        const auto claim = locks.hold_claim("a", patience);
        REQUIRE(claim);
        const auto refused = locks.hold_claim("a", none);
        REQUIRE_FALSE(refused);
        CHECK(refused.error().message.find("being worked on") != std::string::npos);
        CHECK(locks.hold_claim("b", none));
    }
    CHECK(locks.hold_claim("a", none));
}
