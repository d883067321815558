#include "agent/claim/claim_record.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;

namespace {

ClaimRecord record() {
    return {
        .claim = {"ns", "name", "6a2f41a3-c54c-4c45-a0d6-000000000001"},
        .state = ClaimState::unprepared,
        .boot_id = "boot",
        .cdi_digest = "digest",
        .shares =
            {{.request = "gpu",
              .pool = "node",
              .device = "gpu-a",
              .uuid = "GPU-a",
              .share_id = "s",
              .amounts = {1 << 30, 30, 1},
              .config = {.priority = 1, .core_policy = CorePolicy::force}},
             {.request = "gpu", .pool = "node", .device = "gpu-b", .uuid = "GPU-b", .admin = true}},
        .time = 1700000000,
        .unknown = {{"later", R"({"x":[1]})"}}};
}

}  // namespace

TEST_CASE("a record comes back as it was") {
    const auto back = decode_record(encode_record(record()));
    REQUIRE(back);
    CHECK(*back == record());
}

TEST_CASE("a record that is cut anywhere is refused") {
    const std::string text = encode_record(record());
    for (std::size_t length = 0; length < text.size(); ++length) {
        const auto read = decode_record(std::string_view(text).substr(0, length));
        REQUIRE_FALSE(read);
        CHECK(read.error().kind == ErrorKind::invalid_input);
    }
}

TEST_CASE("a record with any bit flipped is refused, or a later version that is not there") {
    const std::string text = encode_record(record());
    for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
        std::string damaged = text;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
        CHECK_FALSE(decode_record(damaged));
    }
}

TEST_CASE("what stands behind a record is no part of it") {
    CHECK_FALSE(decode_record(encode_record(record()) + " "));
    CHECK_FALSE(decode_record(encode_record(record()) + encode_record(record())));
}

TEST_CASE("only what can be a file name is a claim's UID") {
    CHECK(is_claim_uid("6a2f41a3-c54c-4c45-a0d6-000000000001"));
    for (const char* text : {"", "..", "a/b", "-a", "a.b", "a b", "\xff"})
        CHECK_FALSE(is_claim_uid(text));
    CHECK_FALSE(is_claim_uid(std::string(64, 'a')));
}
