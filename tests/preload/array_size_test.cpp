#include "preload/array_size.hpp"

#include "preload/ledger.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>

using namespace preload;

namespace {

// "1000x1000x0 format 0x20 channels 4" of the recording.
ArrayShape parse(const std::string& text) {
    ArrayShape shape;
    unsigned long width = 0;
    unsigned long height = 0;
    unsigned long depth = 0;
    REQUIRE(std::sscanf(text.c_str(), "%lux%lux%lu format %x channels %u", &width, &height, &depth,
                        &shape.format, &shape.channels) == 5);
    shape.width = width;
    shape.height = height;
    shape.depth = depth;
    return shape;
}

}  // namespace

TEST_CASE("arrays take what the recorded driver took for them") {
    std::ifstream file(DRAWBRIDGE_SOURCE "/tests/preload/recorded/580.159-h200/facts.json");
    const auto facts = nlohmann::json::parse(file)["arrays"];
    int compared = 0;
    for (const auto& entry : facts.items()) {
        const std::string& name = entry.key();
        const auto& answer = entry.value();
        if (name.find("format") == std::string::npos || answer[0] != 0) continue;
        const std::uint64_t bytes = array_bytes(parse(name));
        const std::uint64_t page = 2 << 20;
        CHECK_MESSAGE((bytes + page - 1) / page * page == answer[1][0].get<std::uint64_t>(), name);
        ++compared;
    }
    CHECK(compared >= 18);
}

TEST_CASE("all levels of a mipmap count") {
    ArrayShape shape{1024, 1024, 0, 0x20, 4, 0, 1};
    CHECK(array_bytes(shape) == 16777216);
    shape.levels = 5;
    CHECK(array_bytes(shape) == 23068672);
    shape.levels = 11;
    CHECK(array_bytes(shape) == 23068672);
}

TEST_CASE("a cubemap is six layers") {
    for (const std::uint64_t side : {64, 129, 1000})
        for (const std::uint32_t levels : {1, 4, 11})
            CHECK(array_bytes({side, side, 6, 0x20, 4, array_cubemap, levels}) ==
                  array_bytes({side, side, 6, 0x20, 4, array_layered, levels}));
}

TEST_CASE("arrays that are mapped later take nothing") {
    CHECK(array_bytes({1024, 1024, 0, 0x20, 4, array_deferred, 1}) == 0);
    CHECK(array_bytes({1024, 1024, 0, 0x20, 4, array_sparse, 1}) == 0);
}

TEST_CASE("sizes that no device has saturate instead of wrapping") {
    CHECK(array_bytes({UINT64_MAX, 2, 2, 0x20, 4, 0, 1}) > ledger::absurd_bytes);
    CHECK(array_bytes({1u << 31, 1u << 31, 1u << 31, 0x20, 4, 0, 1}) > ledger::absurd_bytes);
    CHECK(array_bytes({1, 1, 1, 0xffffffff, 0xffffffff, 0, 0xffffffff}) > 0);
}
