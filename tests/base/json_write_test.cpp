#include "base/json.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::base {
namespace {

std::string in_quotes(std::string_view text) {
    std::string out;
    append_json_string(out, text);
    return out;
}

TEST_CASE("a writer puts commas and colons where they belong") {
    JsonWriter writer;
    writer.begin_object();
    writer.key("empty").begin_array().end_array();
    writer.key("none").begin_object().end_object();
    writer.key("list").begin_array();
    writer.integer(-1).number(0.5).boolean(true).boolean(false).null().string("s");
    writer.begin_array().begin_array().end_array().integer(2).end_array();
    writer.begin_object().member("k", "v").member("l", "w").end_object();
    writer.end_array();
    writer.key("raw").raw(R"({"x": 1})");
    writer.member("last", "");
    writer.end_object();
    CHECK(writer.text() == R"({"empty":[],"none":{},"list":[-1,0.5,true,false,null,"s",[[],2],)"
                           R"({"k":"v","l":"w"}],"raw":{"x": 1},"last":""})");
    CHECK(nlohmann::json::accept(writer.take()));
}

TEST_CASE("a writer writes numbers that read back as they were") {
    for (const std::int64_t value : {INT64_MIN, INT64_MAX, std::int64_t{0}}) {
        CHECK(JsonWriter().integer(value).text() == std::to_string(value));
    }
    for (const double value : {0.1, -1.0 / 3, 1e300, 5e-324, 1e21, 123456789.125}) {
        CHECK(nlohmann::json::parse(JsonWriter().number(value).text()).get<double>() == value);
    }
    CHECK(JsonWriter().number(std::nan("")).text() == "null");
    CHECK(JsonWriter().number(std::numeric_limits<double>::infinity()).text() == "null");
}

TEST_CASE("strings are escaped, and invalid UTF-8 replaced byte by byte") {
    using namespace std::string_view_literals;
    struct Row {
        std::string_view text, json;
    };
    const std::vector<Row> rows = {
        {"", R"("")"},
        {"plain text", R"("plain text")"},
        {"\"\\/", R"("\"\\/")"},
        {"\b\f\n\r\t", R"("\b\f\n\r\t")"},
        {"\0\x01\x1F\x7F"sv, "\"\\u0000\\u0001\\u001f\x7F\""},
        {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\""},
        {"\xE2\x80\xA8\xE2\x80\xA9", "\"\xE2\x80\xA8\xE2\x80\xA9\""},
        {"a\xFFz", "\"a\xEF\xBF\xBDz\""},
        {"\xC3", "\"\xEF\xBF\xBD\""},
        {"\xE2\x82", "\"\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\""},
        {"\xC3\"", "\"\xEF\xBF\xBD\\\"\""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.json);
        CHECK(in_quotes(row.text) == row.json);
        CHECK(nlohmann::json::accept(in_quotes(row.text)));
    }
}

TEST_CASE("any bytes become a string that is read") {
    for (int first = 0; first < 256; ++first) {
        for (int second = 0; second < 256; ++second) {
            const std::string bytes = {static_cast<char>(first), static_cast<char>(second)};
            REQUIRE(parse_json(in_quotes(bytes)).has_value());
        }
    }
}

TEST_CASE("a character is written alike wherever it stands") {
    for (int c = 1; c < 0x80; ++c) {
        for (std::size_t at = 0; at < 20; ++at) {
            std::string text(20, 'x');
            text[at] = static_cast<char>(c);
            REQUIRE(in_quotes(text) == nlohmann::json(text).dump());
            text += "\xC3\xA9";
            REQUIRE(in_quotes(text) == nlohmann::json(text).dump());
        }
    }
}

TEST_CASE("indentation changes white space outside of strings alone") {
    CHECK(indent_json(R"({"a":[1,{"b":"x, {y}: \"z\""},[]],"c":{},"d":1.50e+3})") ==
          "{\n"
          "  \"a\": [\n"
          "    1,\n"
          "    {\n"
          "      \"b\": \"x, {y}: \\\"z\\\"\"\n"
          "    },\n"
          "    []\n"
          "  ],\n"
          "  \"c\": {},\n"
          "  \"d\": 1.50e+3\n"
          "}");
    CHECK(indent_json("[1]", 2) == "[\n      1\n    ]");
    CHECK(indent_json("[ { } , [\n] ]") == "[\n  {},\n  []\n]");
    CHECK(indent_json(" \"a\\\\\" ") == "\"a\\\\\"");
    CHECK(indent_json("18446744073709551616") == "18446744073709551616");
    CHECK(indent_json("").empty());
}

TEST_CASE("indented text indents to itself and means the same") {
    const std::string text =
        R"({"z":[[[]],[{}],{"a":{"b":[0,-0.0,1e-7,12345678901234567890]}}],"a":"\u0000\\","":null})";
    const std::string indented = indent_json(text);
    CHECK(indent_json(indented) == indented);
    CHECK(nlohmann::ordered_json::parse(indented) == nlohmann::ordered_json::parse(text));
    CHECK(indented.find("12345678901234567890") != std::string::npos);
}

TEST_CASE("indentation survives text that is no JSON") {
    for (const std::string_view text :
         {"]", "}}}}", "[", "{", "\"", "\"\\", "[1", "{\"a", ",,,", "[}", "::", "\\", "{\"a\":"}) {
        CAPTURE(text);
        CHECK(!indent_json(text).empty());
    }
}

}  // namespace
}  // namespace drawbridge::base
