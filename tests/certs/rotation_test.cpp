#include "certs/rotation.hpp"

#include <doctest/doctest.h>

namespace drawbridge::certs {
namespace {

using namespace std::chrono_literals;

constexpr Time start{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};

CertFacts lasting(Time from, std::chrono::seconds lifetime) {
    CertFacts facts;
    facts.not_before = from;
    facts.not_after = from + lifetime;
    return facts;
}

TEST_CASE("a certificate is due from two thirds of its lifetime on, and while it is not valid") {
    const auto certificate = lasting(start, 90h);
    CHECK(is_due(start - 1s, certificate));
    CHECK_FALSE(is_due(start, certificate));
    CHECK_FALSE(is_due(start + 60h - 1s, certificate));
    CHECK(is_due(start + 60h, certificate));
    CHECK(is_due(start + 91h, certificate));
}

TEST_CASE("the next step follows what is in use") {
    const auto ca = lasting(start, 900h);
    const auto leaf = lasting(start, 90h);
    struct Row {
        const char* what;
        Time now;
        Identity identity;
        RotationStep step;
    };
    const std::vector<Row> rows = {
        {"nothing there", start, {}, RotationStep::renew_ca},
        {"a leaf without its authority", start, {std::nullopt, leaf, {}}, RotationStep::renew_ca},
        {"an authority alone", start, {ca, std::nullopt, {}}, RotationStep::renew_leaf},
        {"both young", start + 1h, {ca, leaf, {}}, RotationStep::keep},
        {"leaf due", start + 60h, {ca, leaf, {}}, RotationStep::renew_leaf},
        {"both due", start + 600h, {ca, lasting(start + 500h, 90h), {}}, RotationStep::renew_ca},
        {"authority ended", start + 901h, {ca, leaf, {}}, RotationStep::renew_ca},
        {"clock was set back", start - 1h, {ca, leaf, {}}, RotationStep::renew_ca},
        {"old authority still has leaves",
         start + 50h,
         {ca, leaf, {lasting(start - 600h, 900h)}},
         RotationStep::keep},
        {"old authority's leaves have ended",
         start + 91h,
         {ca, lasting(start + 60h, 90h), {lasting(start - 600h, 900h)}},
         RotationStep::drop_old_ca},
        {"old authority has ended",
         start + 1h,
         {ca, leaf, {lasting(start - 900h, 900h)}},
         RotationStep::drop_old_ca},
    };
    for (const auto& row : rows) {
        CAPTURE(row.what);
        CHECK(next_step(row.now, row.identity) == row.step);
    }
}

TEST_CASE("an old authority that has not ended is kept while there is nothing to compare with") {
    CHECK_FALSE(is_out_of_use(start + 500h, lasting(start, 900h), {}));
}

}  // namespace
}  // namespace drawbridge::certs
