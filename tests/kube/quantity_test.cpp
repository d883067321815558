#include "kube/quantity.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>

using namespace drawbridge;
using kube::parse_quantity;
using kube::Quantity;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();
constexpr std::nullopt_t none = std::nullopt;

Quantity read(std::string_view text) {
    CAPTURE(text);
    const auto quantity = parse_quantity(text);
    REQUIRE(quantity);
    return *quantity;
}

}  // namespace

// The rows here and below were compared with apimachinery v0.36 (tests/kube/referee).
TEST_CASE("a quantity is read as an API server reads it") {
    struct Row {
        std::string_view text;
        std::optional<std::int64_t> whole;
        std::int64_t rounded_up;
    };
    const Row rows[] = {
        {"0", 0, 0},
        {"-0", 0, 0},
        {"+0", 0, 0},
        {"00", 0, 0},
        {"0.0", 0, 0},
        {"0Ei", 0, 0},
        {"1", 1, 1},
        {"+1", 1, 1},
        {"-1", -1, -1},
        {"007", 7, 7},
        {"16384", 16384, 16384},
        // suffixes
        {"3k", 3000, 3000},
        {"3M", 3000000, 3000000},
        {"3G", 3000000000, 3000000000},
        {"3T", 3000000000000, 3000000000000},
        {"3P", 3000000000000000, 3000000000000000},
        {"3E", 3000000000000000000, 3000000000000000000},
        {"1Ki", 1024, 1024},
        {"1Mi", 1 << 20, 1 << 20},
        {"1Gi", 1 << 30, 1 << 30},
        {"1Ti", 1LL << 40, 1LL << 40},
        {"1Pi", 1LL << 50, 1LL << 50},
        {"1Ei", 1LL << 60, 1LL << 60},
        {"81251Mi", 81251LL << 20, 81251LL << 20},
        {"2000m", 2, 2},
        {"1500m", none, 2},
        {"500m", none, 1},
        {"-500m", none, -1},
        {"-1500m", none, -2},
        {"3000000u", 3, 3},
        {"1u", none, 1},
        {"5000000000n", 5, 5},
        {"1n", none, 1},
        // exponents
        {"1e3", 1000, 1000},
        {"1E3", 1000, 1000},
        {"10E3", 10000, 10000},
        {"1e+3", 1000, 1000},
        {"1e03", 1000, 1000},
        {"1e0", 1, 1},
        {"1e-0", 1, 1},
        {"2000e-3", 2, 2},
        {"5e-1", none, 1},
        {"1E", 1000000000000000000, 1000000000000000000},
        {"1.5E", 1500000000000000000, 1500000000000000000},
        {"1e4294967299", 1000, 1000},  // 32 bits are kept
        {"1e-4294967293", 1000, 1000},
        // dots
        {"3000.0", 3000, 3000},
        {"5.", 5, 5},
        {".5", none, 1},
        {"+.5", none, 1},
        {"5.k", 5000, 5000},
        {".5k", 500, 500},
        {"1.5Gi", 1536LL << 20, 1536LL << 20},
        {"0.5Ki", 512, 512},
        {"0.1Ki", none, 103},
        {"1.25", none, 2},
        // no number at all is zero, mostly
        {"+", 0, 0},
        {"-", 0, 0},
        {".", 0, 0},
        {"k", 0, 0},
        {"E", 0, 0},
        {".n", 0, 0},
        {"Ti", 0, 0},
        {"-.Ki", 0, 0},
        {"e3", 0, 0},
        {"e-9", 0, 0},
        // finer than nano
        {"0.1n", none, 1},
        {"-0.1n", none, -1},
        {"1e-10", none, 1},
        {"1e-999999999", none, 1},
        {"1.0000000001", none, 2},
        {"0.9999999999", 1, 1},
        {"999999999.9999999999", 1000000000, 1000000000},
        {"0.00000000000000000000", 0, 0},
        {"1.00000000000000000000", 1, 1},
        // at and beyond 64 bits
        {"9223372036854775807", largest, largest},
        {"9223372036854775808", none, largest},
        {"-9223372036854775808", smallest, smallest},
        {"-9223372036854775809", none, smallest},
        {"9223372036854775806.5", none, largest},
        {"9223372036854775807.5", none, largest},
        {"10E", none, largest},
        {"-10E", none, smallest},
        {"1e999999999", none, largest},
        {"-1e999999999", none, smallest},
        {"0e999999999", 0, 0},
        {"9007199254740991Ki", 9223372036854774784, 9223372036854774784},
        {"9007199254740992Ki", largest, largest},
        {"8Ei", largest, largest},
        {"-8Ei", -largest, -largest},
        {"99999999999999999999Ei", largest, largest},
        {"7.999999999999999999Ei", none, 9223372036854775807},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto quantity = parse_quantity(row.text);
        REQUIRE(quantity);
        CHECK(quantity->whole() == row.whole);
        CHECK(quantity->rounded_up() == row.rounded_up);
        CHECK(quantity->is_zero() == (row.rounded_up == 0));
        CHECK(quantity->is_negative() == (row.rounded_up < 0));
    }
}

TEST_CASE("what is no quantity is refused, and the message shows it") {
    for (const std::string_view text : {"",
                                        " ",
                                        " 1",
                                        "1 ",
                                        "1 k",
                                        "\t1",
                                        "3K",
                                        "3KB",
                                        "1i",
                                        "1ki",
                                        "1mi",
                                        "1KI",
                                        "1KiB",
                                        "1B",
                                        "0x10",
                                        "1_000",
                                        "1,5",
                                        "1.2.3",
                                        "1..2",
                                        "--1",
                                        "+-1",
                                        "1+3",
                                        "1-3",
                                        "1e",
                                        "1e-",
                                        "1e+",
                                        "1e+-3",
                                        "1e-+3",
                                        "1Ee3",
                                        "1e3k",
                                        "1k3",
                                        "1e3.5",
                                        "1Ki3",
                                        "e-10",
                                        "Pi",
                                        "Ei",
                                        "-.Ei",
                                        ".e-10",
                                        "1e9223372036854775808",
                                        "1e-9223372036854775809",
                                        "NaN",
                                        "inf",
                                        "abc",
                                        "１",
                                        "1\xff",
                                        "\"1\""}) {
        CAPTURE(text);
        const auto quantity = parse_quantity(text);
        REQUIRE_FALSE(quantity);
        CHECK(quantity.error().kind == base::ErrorKind::invalid_input);
        CHECK(quantity.error().message.find("is not a quantity") != std::string::npos);
    }
    CHECK(parse_quantity("3K").error().message.starts_with("\"3K\" is not a quantity: "));
    CHECK_FALSE(parse_quantity(std::string_view("1\0", 2)));
    const auto endless = parse_quantity(std::string(1000000, '7') + "x");
    REQUIRE_FALSE(endless);
    CHECK(endless.error().message.size() < 300);
}

TEST_CASE("quantities in rising order compare so") {
    const std::string_view rising[] = {"-1e999999999",
                                       "-10E",
                                       "-9223372036854775809",
                                       "-9223372036854775808",
                                       "-8Ei",
                                       "-1k",
                                       "-999.999",
                                       "-2",
                                       "-1500m",
                                       "-1.2",
                                       "-1",
                                       "-1m",
                                       "-1n",
                                       "0",
                                       "1n",
                                       "2n",
                                       "1u",
                                       "999999n",
                                       "1m",
                                       "0.1",
                                       "0.11",
                                       "0.2",
                                       "1",
                                       "1.000000001",
                                       "1.2",
                                       "1500m",
                                       "2",
                                       "9",
                                       "10",
                                       "11",
                                       "99",
                                       "100",
                                       "999",
                                       "1k",
                                       "1Ki",
                                       "9999",
                                       "1M",
                                       "1Mi",
                                       "1G",
                                       "1Gi",
                                       "81250Mi",
                                       "81251Mi",
                                       "1E",
                                       "1Ei",
                                       "8Ei",
                                       "9223372036854775808",
                                       "10E",
                                       "20E",
                                       "1e30",
                                       "1e999999999"};
    for (std::size_t i = 0; i < std::size(rising); ++i) {
        for (std::size_t j = 0; j < std::size(rising); ++j) {
            CAPTURE(rising[i]);
            CAPTURE(rising[j]);
            const Quantity left = read(rising[i]);
            const Quantity right = read(rising[j]);
            CHECK((left <=> right) == (i <=> j));
            CHECK((left == right) == (i == j));
        }
    }
}

TEST_CASE("spellings of one value are equal") {
    const std::pair<std::string_view, std::string_view> rows[] = {
        {"4096Mi", "4Gi"},    {"3000", "3k"},   {"3e3", "3000000m"},
        {"0.5", "500m"},      {"-0", "0"},      {"1.50", "1500m"},
        {"0.1n", "1n"},       {"8Ei", "9Ei"},   {"8Ei", "9223372036854775807"},
        {"1000000E", "1e24"}, {"000100", "1e2"}};
    for (const auto& [left, right] : rows) {
        CAPTURE(left);
        CHECK(read(left) == read(right));
        CHECK((read(left) <=> read(right)) == 0);
    }
}

TEST_CASE("a whole number is the quantity of its digits") {
    for (const std::int64_t value :
         {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{3000},
          std::int64_t{81251} << 20U, largest, smallest}) {
        CAPTURE(value);
        CHECK(Quantity(value) == read(std::to_string(value)));
        CHECK(Quantity(value).whole() == value);
        CHECK(Quantity(value).rounded_up() == value);
    }
    CHECK(Quantity() == Quantity(0));
}

TEST_CASE("endless texts are exact and cheap") {
    const std::string zeros(3000000, '0');
    const std::string nines(3000000, '9');
    CHECK(read(zeros + "12").whole() == 12);
    CHECK(read("12." + zeros).whole() == 12);
    CHECK(read("1" + zeros + "e-3000000").whole() == 1);
    CHECK(read("0." + nines).whole() == 1);
    CHECK(read("0." + zeros + "1") == read("1n"));
    CHECK(read(nines + "Ei").whole() == largest);
    CHECK_FALSE(read(nines).whole());
    CHECK(read(nines) < read("1" + zeros));
    CHECK(read("-" + nines).rounded_up() == smallest);
}
