#include "base/json.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace drawbridge::base {
namespace {

std::string repeat(std::string_view text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i)
        out += text;
    return out;
}

/// An object of `count` members, each named by its number; `name_of_last` instead for the last.
std::string many_members(std::size_t count, const std::string& name_of_last) {
    std::string out = "{";
    for (std::size_t i = 0; i + 1 < count; ++i)
        out += '"' + std::to_string(i) + "\":0,";
    return out + '"' + name_of_last + "\":0}";
}

JsonDocument parsed(std::string text) {
    auto document = parse_json(std::move(text));
    REQUIRE(document.has_value());
    return std::move(*document);
}

TEST_CASE("every kind of value is read and written back") {
    struct Row {
        std::string_view text, written;
    };
    const std::vector<Row> rows = {
        {"null", "null"},
        {" true\n", "true"},
        {"false", "false"},
        {"0", "0"},
        {"-0", "0"},
        {"0e101", "0.0"},
        {"-0E87", "-0.0"},
        {"9177.868235435e-328", "0.0"},
        {"-0e101", "-0.0"},
        {"0.000e-999", "0.0"},
        {"1e-400", "0.0"},
        {"2.2250738585072011e-308", "2.225073858507201e-308"},
        {"-0.0", "-0.0"},
        {"1.0", "1.0"},
        {"0.10", "0.1"},
        {"1e2", "100.0"},
        {"1e21", "1e+21"},
        {"1E-7", "1e-7"},
        {"2147483648", "2147483648"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775807", "9223372036854775807"},
        {"18446744073709551615", "18446744073709551615"},
        {"18446744073709551616", "18446744073709552000"},
        {"1e-2147483649", "0.0"},
        {"5e-324", "5e-324"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"\"\"", "\"\""},
        {R"("a\"\\\/\b\f\n\r\tz")", R"("a\"\\/\b\f\n\r\tz")"},
        {R"("\u0000\u001F")", R"("\u0000\u001f")"},
        {R"("\uD83D\uDE00\u20AC")", "\"\xF0\x9F\x98\x80\xE2\x82\xAC\""},
        {"\"\x7F\xC3\xA9\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\"",
         "\"\x7F\xC3\xA9\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF\""},
        {"[ ]", "[]"},
        {"{ }", "{}"},
        {"[1,[2,{}],{\"b\":[],\"a\":null}]", "[1,[2,{}],{\"b\":[],\"a\":null}]"},
        {"{\"\":{\"\":1}}", "{\"\":{\"\":1}}"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto document = parse_json(std::string(row.text));
        REQUIRE(document.has_value());
        CHECK(document->root().to_json() == row.written);
    }
}

TEST_CASE("what is no JSON is refused with its place") {
    struct Row {
        std::string text, message, path;
    };
    const std::vector<Row> rows = {
        {"", "byte 0: ", ""},
        {" \n", "byte 2: ", ""},
        {"nul", "byte 3: ", ""},
        {"NaN", "byte 0: ", ""},
        {"[Infinity]", "byte 1: ", ""},
        {"-", "byte 1: ", ""},
        {"+1", "byte 0: ", ""},
        {"01", "byte 1: ", ""},
        {"1.", "byte 2: ", ""},
        {".5", "byte 0: ", ""},
        {"1e", "byte 2: ", ""},
        {"0x10", "byte 1: ", ""},
        {"1e400", "byte 0: ", ""},
        {"-29.03996286E+308", "byte 0: ", ""},
        {"-1e99999999999999999999", "byte 0: ", ""},
        {"[1]x", "byte 3: ", ""},
        {"{} {}", "byte 3: ", ""},
        {"[1,]", "byte 3: ", ""},
        {"[1 2]", "byte 3: ", ""},
        {"{\"a\":1,}", "byte 7: ", ""},
        {"{\"a\" 1}", "byte 5: ", "/a"},
        {"{a:1}", "byte 1: ", ""},
        {"{'a':1}", "byte 1: ", ""},
        {"[1] // no", "byte 4: ", ""},
        {"/**/1", "byte 0: ", ""},
        {"\xEF\xBB\xBF{}", "byte 0: ", ""},
        {"{\"a\":[1,{\"b/c\":x}]}", "byte 15: ", "/a/1/b~1c"},
        {"{\"a\":{\"b\":1},\"c\":[[],?]}", "byte 21: ", "/c"},
        {"\"abc", "", ""},
        {"\"\\x\"", "", ""},
        {"\"\\u12g4\"", "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto document = parse_json(row.text);
        REQUIRE(!document.has_value());
        CHECK(document.error().kind == ErrorKind::invalid_input);
        CHECK(document.error().message.find(row.message) != std::string::npos);
        if (!row.path.empty()) CHECK(document.error().path == row.path);
    }
}

TEST_CASE("control characters are refused at any place, also deep inside a long string") {
    for (int c = 0; c < 0x20; ++c) {
        if (c == '\t' || c == '\n' || c == '\r') continue;
        for (std::size_t before = 0; before < 40; ++before) {
            const std::string head = '"' + std::string(before, 'x');
            const std::string text = head + static_cast<char>(c) + "yyyyyyyyyyyyyyyyyyyyyy\"";
            CAPTURE(c);
            const auto document = parse_json(text);
            REQUIRE(!document.has_value());
            CHECK(document.error().message.find(std::to_string(head.size())) != std::string::npos);
        }
    }
    for (const std::string white : {"\t", "\n", "\r"}) {
        CHECK(parse_json(white + "[" + white + "1" + white + "]" + white).has_value());
        CHECK(!parse_json("\"" + white + "\"").has_value());
        CHECK(!parse_json("\"0123456789abcdef0123456789" + white + "\"").has_value());
    }
    CHECK(!parse_json(std::string("1\0", 2)).has_value());
    CHECK(!parse_json(std::string("\0", 1)).has_value());
}

TEST_CASE("invalid UTF-8 is refused in values, names and between tokens") {
    const std::vector<std::string> bad = {
        "\x80",
        "\xBF",
        "\xC0\x80",
        "\xC1\xBF",
        "\xC3",
        "\xC3(",
        "\xE0\x80\x80",
        "\xE0\x9F\xBF",
        "\xED\xA0\x80",
        "\xED\xBF\xBF",
        "\xE2\x82",
        "\xE2(\xA1",
        "\xF0\x80\x80\x80",
        "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80",
        "\xF5\x80\x80",
        "\xF0\x9F\x98",
        "\xFE",
        "\xFF",
    };
    for (const std::string& bytes : bad) {
        CAPTURE(
            nlohmann::json(bytes).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
        for (const std::string& text :
             {'"' + bytes + '"', "\"0123456789abcdef" + bytes + "\"", "{\"" + bytes + "\":1}",
              "[" + bytes + "]", bytes, "1" + bytes}) {
            const auto document = parse_json(text);
            REQUIRE(!document.has_value());
            CHECK(document.error().message.find("UTF-8") != std::string::npos);
        }
    }
}

TEST_CASE("half a surrogate pair is refused, whichever half and wherever") {
    for (const std::string half :
         {R"(\ud800)", R"(\uDBFF)", R"(\udc00)", R"(\uDFFF)", R"(\uD800\uD800)", R"(\udc00\ud800)",
          R"(\ud800x)", R"(\ud83d\n)", R"(\uD83D\u0041)"}) {
        CAPTURE(half);
        CHECK(!parse_json('"' + half + '"').has_value());
        CHECK(!parse_json("{\"" + half + "\":1}").has_value());
        CHECK(!parse_json("[1,\"a" + half + "b\"]").has_value());
    }
    CHECK(parse_json(R"("\uD7FF\uE000\\ud800")").has_value());
    const auto document = parse_json(R"({"a":["ok","\udc00"]})");
    REQUIRE(!document.has_value());
    CHECK(document.error().path == "/a/1");
}

TEST_CASE("the number of values is bounded while parsing") {
    const JsonLimits four{.max_bytes = 1U << 20U, .max_depth = 3, .max_values = 4};
    CHECK(parse_json("[1,{\"a\":2}]", four).has_value());
    const auto five = parse_json("[1,{\"a\":[2]}]", four);
    REQUIRE(!five.has_value());
    CHECK(five.error().message.find("more than 4 values") != std::string::npos);
    CHECK(five.error().path == "/1/a");
    CHECK(!parse_json("[" + repeat("0,", 1'000'000) + "0]").has_value());
}

TEST_CASE("depth is bounded while parsing") {
    const JsonLimits three{.max_bytes = 1U << 20U, .max_depth = 3};
    CHECK(parse_json("[[[1]]]", three).has_value());
    CHECK(parse_json("[[[]],[[]],{\"a\":{}}]", three).has_value());
    CHECK(!parse_json("[[[[]]]]", three).has_value());
    CHECK(!parse_json(R"({"a":{"b":{"c":{}}}})", three).has_value());
    CHECK(parse_json("1", JsonLimits{.max_bytes = 9, .max_depth = 0}).has_value());
    CHECK(!parse_json("[]", JsonLimits{.max_bytes = 9, .max_depth = 0}).has_value());

    for (const std::string text : {"[[[[]]]]", "[[[{}]]]"}) {
        const auto deep = parse_json(text, three);
        REQUIRE(!deep.has_value());
        CHECK(deep.error().message.starts_with("JSON, byte 3: more than 3 arrays"));
    }
    const auto mixed = parse_json(R"({"a":[0,{"b":[]}]})", three);
    REQUIRE(!mixed.has_value());
    CHECK(mixed.error().path == "/a/1/b");

    CHECK(parse_json(repeat("[", 128) + repeat("]", 128)).has_value());
    for (const std::string& bomb :
         {repeat("[", 2'000'000), repeat("{\"a\":", 1'000'000), repeat("[{\"a\":", 500'000),
          repeat("[", 129) + repeat("]", 129)}) {
        const auto document = parse_json(bomb);
        REQUIRE(!document.has_value());
        CHECK(document.error().message.find("more than 128") != std::string::npos);
        CHECK(document.error().path.size() < 1024);
    }
}

TEST_CASE("size is bounded") {
    const JsonLimits ten{.max_bytes = 10, .max_depth = 4};
    CHECK(parse_json("\"12345678\"", ten).has_value());
    const auto document = parse_json("\"123456789\"", ten);
    REQUIRE(!document.has_value());
    CHECK(document.error().kind == ErrorKind::invalid_input);
    CHECK(document.error().message.find("11 bytes") != std::string::npos);
    CHECK(!parse_json(std::string((7U << 20U) + 1, ' ')).has_value());
}

TEST_CASE("a member name that comes twice is refused with its place") {
    struct Row {
        std::string text, path, place;
    };
    const std::vector<Row> rows = {
        {R"({"a":1,"a":2})", "/a", "byte 8:"},
        {R"({"a":1,"b":{},"a":{}})", "/a", "byte 15:"},
        {R"({"":1,"":2})", "/", "byte 7:"},
        {R"({"a":1,"\u0061":2})", "/a", "byte 8:"},
        {R"({"x":[0,{"~/":1,"~/":2}]})", "/x/1/~0~1", "byte 17:"},
        {R"({"x":{"a":{"a":1},"b":{"a":1},"a":2}})", "/x/a", "byte 31:"},
        {many_members(13, "5"), "/5", "byte "},
        {many_members(1000, "998"), "/998", "byte "},
        {"[" + many_members(1000, "0") + "]", "/0/0", "byte "},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text.substr(0, 60));
        const auto document = parse_json(row.text);
        REQUIRE(!document.has_value());
        CHECK(document.error().path == row.path);
        CHECK(document.error().message.find(row.place) != std::string::npos);
    }
    const std::string late = many_members(1000, "998");
    const auto document = parse_json(late);
    REQUIRE(!document.has_value());
    CHECK(document.error().message.find(fmt::format("byte {}:", late.size() - 7)) !=
          std::string::npos);
}

TEST_CASE("the same name in different objects is no duplicate") {
    CHECK(parse_json(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}],"A":1})").has_value());
    CHECK(parse_json(many_members(100'000, "last")).has_value());
    CHECK(parse_json(R"({"a":1,"a\u0000":2})").has_value());
}

TEST_CASE("hostile names make no long places in errors") {
    const std::string name(100'000, 'n');
    const auto document = parse_json("{\"a\":{\"" + name + "\":1,\"" + name + "\":2}}");
    REQUIRE(!document.has_value());
    CHECK(document.error().path == "/a");
    const auto deep = parse_json("{\"a\":{\"" + name + "\":{\"b\":x}}}");
    REQUIRE(!deep.has_value());
    CHECK(deep.error().path == "/a");
}

TEST_CASE("look-ups chain over what is not there") {
    const auto document = parsed(R"({"spec":{"list":[1,"two",null]},"text":"t","flag":true})");
    const JsonView root = document.root();
    CHECK(root["spec"]["list"].at(1).as_string() == "two");
    CHECK(root["spec"]["nothing"]["deeper"].at(3)["x"].is_missing());
    CHECK(root["text"]["x"].is_missing());
    CHECK(root.at(0).is_missing());
    CHECK(root["spec"]["list"].size() == 3);
    CHECK(root["spec"]["list"].at(2).is_absent());
    CHECK(!root["spec"]["list"].at(2).is_missing());
    CHECK(root["spec"]["list"].at(3).is_missing());
    CHECK(root.size() == 0);
    CHECK(root["spec"]["list"].members().empty());
    CHECK(root["flag"].as_bool() == true);
    CHECK(root["text"].string_or("x") == "t");
    CHECK(root["flag"].string_or("x") == "x");
    CHECK(JsonView().to_json().empty());
    CHECK(JsonDocument().root().is_missing());
}

TEST_CASE("asking for the wrong kind answers nothing") {
    const auto document = parsed(R"([null,true,1,1.5,"s",[],{}])");
    const std::vector<JsonKind> kinds = {JsonKind::null,   JsonKind::boolean, JsonKind::number,
                                         JsonKind::number, JsonKind::string,  JsonKind::array,
                                         JsonKind::object};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
        CAPTURE(i);
        const JsonView view = document.root().at(i);
        CHECK(view.kind() == kinds[i]);
        CHECK(view.as_bool().has_value() == (i == 1));
        CHECK(view.as_int().has_value() == (i == 2));
        CHECK(view.as_string().has_value() == (i == 4));
        CHECK(view.scalar_text().has_value() == (i >= 2 && i <= 4));
        CHECK(view["x"].is_missing());
        CHECK(view.at(0).is_missing());
        CHECK(view.size() == 0);
        CHECK(view.members().empty());
    }
}

TEST_CASE("members come in the order of the text") {
    const auto document = parsed(R"({"z":1,"a":2,"m":{"k":"v"}})");
    const auto members = document.root().members();
    REQUIRE(members.size() == 3);
    CHECK(members[0].key == "z");
    CHECK(members[1].key == "a");
    CHECK(members[2].value["k"].as_string() == "v");
}

TEST_CASE("views outlive a move of their document") {
    auto document = parsed(R"({"a":"short"})");
    const JsonView view = document.root()["a"];
    const JsonDocument other = std::move(document);
    CHECK(view.as_string() == "short");
    CHECK(other.root()["a"].as_string() == "short");
}

TEST_CASE("strings hold NUL and all that escapes can write") {
    const auto document = parsed(R"({"a\u0000b":"\u0000x\u0000"})");
    using namespace std::string_view_literals;
    CHECK(document.root()["a\0b"sv].as_string() == "\0x\0"sv);
    CHECK(document.root()["a"].is_missing());
}

TEST_CASE("JSON pointers find their place (RFC 6901, section 5)") {
    const auto document = parsed(
        R"({"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,)"
        R"("01":9,"d":[[10,11],{"x":12}],"~1":13})");
    struct Row {
        std::string_view pointer, json;
    };
    const std::vector<Row> rows = {
        {"/foo", R"(["bar","baz"])"},
        {"/foo/0", R"("bar")"},
        {"/", "0"},
        {"/a~1b", "1"},
        {"/c%d", "2"},
        {"/e^f", "3"},
        {"/g|h", "4"},
        {"/i\\j", "5"},
        {"/k\"l", "6"},
        {"/ ", "7"},
        {"/m~0n", "8"},
        {"/01", "9"},
        {"/d/0/1", "11"},
        {"/d/1/x", "12"},
        {"/~01", "13"},
        // Nothing there:
        {"foo", ""},
        {"/foo/2", ""},
        {"/foo/-", ""},
        {"/foo/00", ""},
        {"/foo/01", ""},
        {"/foo/+1", ""},
        {"/foo/-1", ""},
        {"/foo/1x", ""},
        {"/foo/", ""},
        {"/foo/18446744073709551616", ""},
        {"/foo/0/x", ""},
        {"/m~n", ""},
        {"/m~2n", ""},
        {"/m~", ""},
        {"/a/b", ""},
        {"//", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.pointer);
        CHECK(document.root().find(row.pointer).to_json() == row.json);
    }
    CHECK(document.root().find("").is_object());
}

TEST_CASE("an escaped pointer token finds the name it was made of") {
    for (const std::string name : {"", "a", "/", "~", "~1", "~0", "a/b~c//~~", "nvidia.com/gpu"}) {
        CAPTURE(name);
        JsonWriter writer;
        writer.begin_object().key(name).integer(1).end_object();
        const auto document = parsed(writer.take());
        CHECK(document.root().find('/' + escape_pointer(name)).as_int() == 1);
    }
    CHECK(escape_pointer("a/b~c") == "a~1b~0c");
}

TEST_CASE("integers are read only where the text is one and fits") {
    struct Row {
        std::string_view text;
        std::optional<std::int64_t> value;
    };
    const std::vector<Row> rows = {
        {"0", 0},
        {"-1", -1},
        {"4294967296", 4294967296},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"9223372036854775808", std::nullopt},
        {"-9223372036854775809", std::nullopt},
        {"1.5", std::nullopt},
        {"1e400000", std::nullopt},
        {"\"1\"", std::nullopt},
        {"true", std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto document = parse_json(std::string(row.text));
        CHECK((document ? document->root().as_int() : std::nullopt) == row.value);
    }
}

TEST_CASE("scalars become text as Go's clients write them") {
    struct Row {
        std::string_view text, go;
    };
    const std::vector<Row> rows = {
        {"\"8Gi\"", "8Gi"},
        {"1", "1"},
        {"-7", "-7"},
        {"1.0", "1"},
        {"0.5", "0.5"},
        {"100.25", "100.25"},
        {"0.1e1", "1"},
        {"1e3", "1000"},
        {"123456789012345680000", "123456789012345680000"},
        {"999999999999999900000", "999999999999999900000"},
        {"1e20", "100000000000000000000"},
        {"1e21", "1e+21"},
        {"1.5e21", "1.5e+21"},
        {"1e100", "1e+100"},
        {"0.000001", "0.000001"},
        {"0.00000123", "0.00000123"},
        {"0.0000001", "1e-7"},
        {"0.00000099", "9.9e-7"},
        {"1e-10", "1e-10"},
        {"-2.5e-9", "-2.5e-9"},
        {"0.0", "0"},
        {"-0.0", "-0"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9223372036854776000"},
        {"18446744073709551615", "18446744073709552000"},
        {"0.1", "0.1"},
        {"0.30000000000000004", "0.30000000000000004"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto document = parsed(std::string(row.text));
        CHECK(document.root().scalar_text() == row.go);
    }
}

TEST_CASE("another JSON library reads the same from what is written") {
    const std::string text =
        R"({"a":[1,-2.5,1e30,true,null,"\u00e9\n\u0000\"\\"],"b":{"c":{}},"d":[[],[{}]],"e":0.1})";
    const auto document = parsed(text);
    CHECK(nlohmann::json::parse(document.root().to_json()) == nlohmann::json::parse(text));
}

}  // namespace
}  // namespace drawbridge::base
