#include "kube/client/backoff.hpp"

#include <doctest/doctest.h>

using drawbridge::kube::client::backoff;

TEST_CASE("the wait doubles from half a second up to 30 s") {
    struct Row {
        int failures;
        int most_ms;
    };
    const Row rows[] = {{-1, 500},  {0, 500},   {1, 500},   {2, 1000},       {3, 2000},
                        {6, 16000}, {7, 30000}, {8, 30000}, {1 << 30, 30000}};
    for (const Row& row : rows) {
        CAPTURE(row.failures);
        CHECK(backoff(row.failures, 1.0).count() == row.most_ms);
        CHECK(backoff(row.failures, 0.0).count() == row.most_ms / 2);
    }
}

TEST_CASE("random outside its range does not stretch the wait") {
    CHECK(backoff(1, -5.0).count() == 250);
    CHECK(backoff(1, 7.0).count() == 500);
}
