#include "agent/claim/claim_locks.hpp"

#include "tests/folder.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds patience{30'000};
constexpr milliseconds none{0};

/// The lock file of a node.
class LockFile {
public:
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    drawbridge::test::Folder folder_;
    std::string path_ = folder_ / "lock";
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
