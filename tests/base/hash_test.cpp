#include "base/hash.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::base {
namespace {

std::string hex(const Sha256& digest) {
    std::string out;
    for (const auto byte : digest)
        out += fmt::format("{:02x}", byte);
    return out;
}

std::span<const std::uint8_t> bytes_of(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST_CASE("SHA-256 agrees with FIPS 180-2") {
    CHECK(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    CHECK(hex(sha256(std::string(1'000'000, 'a'))) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("base 32 agrees with RFC 4648, section 10") {
    struct Row {
        std::string_view bytes, text;
    };
    const std::vector<Row> rows = {{"", ""},
                                   {"f", "my"},
                                   {"fo", "mzxq"},
                                   {"foo", "mzxw6"},
                                   {"foob", "mzxw6yq"},
                                   {"fooba", "mzxw6ytb"},
                                   {"foobar", "mzxw6ytboi"}};
    for (const Row& row : rows) {
        CAPTURE(row.bytes);
        CHECK(base32_lower(bytes_of(row.bytes)) == row.text);
        for (std::size_t chars = 0; chars < 14; ++chars) {
            CHECK(base32_lower(bytes_of(row.bytes), chars) == row.text.substr(0, chars));
        }
    }
    CHECK(base32_lower(sha256("")).size() == 52);
}

TEST_CASE("base 64 agrees with RFC 4648, section 10, in both directions") {
    struct Row {
        std::string_view bytes, text;
    };
    const std::vector<Row> rows = {{"", ""},
                                   {"f", "Zg=="},
                                   {"fo", "Zm8="},
                                   {"foo", "Zm9v"},
                                   {"foob", "Zm9vYg=="},
                                   {"fooba", "Zm9vYmE="},
                                   {"foobar", "Zm9vYmFy"},
                                   {"\xFB\xFF\xBF", "+/+/"}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        CHECK(base64_encode(row.bytes) == row.text);
        CHECK(base64_decode(row.text).value_or("refused") == row.bytes);
    }
    std::string all;
    for (int i = 0; i < 256; ++i)
        all += static_cast<char>(i);
    CHECK(base64_decode(base64_encode(all)).value_or("") == all);
}

TEST_CASE("what is no base 64 is refused") {
    using namespace std::string_view_literals;
    for (const std::string_view text :
         {"Z"sv, "Zg"sv, "Zg="sv, "Zg==="sv, "===="sv, "="sv, "Z==="sv, "Zg==Zg=="sv, "Zm9v\n"sv,
          "Zm 9vYg="sv, "Zm9-"sv, "Zm9_"sv, "Zh=="sv, "Zm9="sv, "Zm\0v"sv, "Zm9\xFF"sv, "=m9v"sv}) {
        CAPTURE(text);
        const auto bytes = base64_decode(text);
        REQUIRE(!bytes.has_value());
        CHECK(bytes.error().kind == ErrorKind::invalid_input);
    }
}

}  // namespace
}  // namespace drawbridge::base
