#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace drawbridge;
using kube::ManifestFormat;

namespace {

std::vector<kube::Manifest> read(std::string_view text) {
    const auto manifests = kube::read_manifests(text);
    REQUIRE_MESSAGE(manifests, manifests.error().path, " ", manifests.error().message);
    return *manifests;
}

base::Error refused(std::string_view text, const base::JsonLimits& limits = {}) {
    const auto manifests = kube::read_manifests(text, limits);
    REQUIRE_FALSE(manifests);
    return manifests.error();
}

std::string repeat(std::string_view text, std::size_t times) {
    std::string out;
    for (std::size_t i = 0; i < times; ++i)
        out += text;
    return out;
}

}  // namespace

TEST_CASE("documents keep their bytes, their number and their line") {
    const auto manifests =
        read("# head\na: 1  # one\n---\n# only a comment\n---\nb: 2\n\n---\n\"c\": 3");
    REQUIRE(manifests.size() == 3);
    CHECK(manifests[0].text == "# head\na: 1  # one\n");
    CHECK(manifests[0].number == 1);
    CHECK(manifests[0].line == 1);
    CHECK(manifests[1].text == "b: 2\n\n");
    CHECK(manifests[1].number == 2);
    CHECK(manifests[1].line == 6);
    CHECK(manifests[2].text == "\"c\": 3");
    CHECK(manifests[2].number == 3);
    CHECK(manifests[2].json == "{\"c\":3}");
}

TEST_CASE("comments before the first marker stay with the first document") {
    const auto manifests = read("# Copyright\n\n---\na: 1\n");
    REQUIRE(manifests.size() == 1);
    CHECK(manifests[0].text == "# Copyright\n\na: 1\n");
    CHECK(manifests[0].number == 1);
    CHECK(manifests[0].line == 4);
}

TEST_CASE("a comment ends where YAML breaks the line, not only at a line feed") {
    for (const std::string_view mark : {"\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9", "\r"}) {
        const auto documents = read("# a comment" + std::string(mark) + "k: 1");
        REQUIRE(documents.size() == 1);
        CHECK(documents.front().json == R"({"k":1})");
        CHECK(read("# a comment" + std::string(mark) + "# another\n").empty());
    }
    CHECK(read("# a comment\r\n").empty());
    CHECK(read("# a comment\ra").size() == 1);
}

TEST_CASE("what stands on the marker's line belongs to the document") {
    CHECK(read("--- # Source: x.yaml\na: 1\n")[0].text == "# Source: x.yaml\na: 1\n");
    CHECK(read("--- {a: 1}\n")[0].json == "{\"a\":1}");
    CHECK(read("---   \r\na: 1\r\n")[0].text == "a: 1\r\n");
}

TEST_CASE("markers, directives and byte order marks come in all forms") {
    CHECK(read("\xEF\xBB\xBF"
               "a: 1\n")[0]
              .text == "a: 1\n");
    CHECK(read("%YAML 1.1\n---\na: 1\n...\n")[0].text == "a: 1\n");
    CHECK(read("a: 1\r\n---\r\nb: 2\r\n")[1].json == "{\"b\":2}");
    CHECK(read("a: 1\n...\nb: 2\n").size() == 2);
    CHECK(read("a: |\n  ---\nb: \"\n  ---\"\n").size() == 1);
    CHECK(read("---a: 1\n")[0].json == "{\"---a\":1}");
    for (const char* empty : {"", "\n", "# c", "---", "---\n---\n", "~\n", "---\n...\n", "null"}) {
        CAPTURE(empty);
        CHECK(read(empty).empty());
    }
}

TEST_CASE("JSON is found by its looks, in any number") {
    const auto manifests = read("{\"a\": 9007199254740993}\n{\"b\": 1e300}\n---\nc: 1\n---\n[1,2]");
    REQUIRE(manifests.size() == 4);
    CHECK(manifests[0].format == ManifestFormat::json);
    CHECK(manifests[0].text == "{\"a\": 9007199254740993}");
    CHECK(manifests[1].json == "{\"b\": 1e300}");
    CHECK(manifests[1].number == 2);
    CHECK(manifests[1].line == 2);
    CHECK(manifests[2].format == ManifestFormat::yaml);
    CHECK(manifests[2].number == 3);
    CHECK(manifests[3].json == "[1,2]");
}

TEST_CASE("flow style that is no JSON is YAML") {
    const auto manifests = read("{a: 1, \"b\": [yes, 012]}  # comment\n");
    REQUIRE(manifests.size() == 1);
    CHECK(manifests[0].format == ManifestFormat::yaml);
    CHECK(manifests[0].json == R"({"a":1,"b":[true,10]})");
}

TEST_CASE("anchors, aliases and merge keys are carried out") {
    CHECK(read("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}\n")[0].json ==
          R"({"a":{"b":1},"c":{"b":1},"d":{"b":1,"e":2}})");
}

TEST_CASE("an error names line and column in the file") {
    struct Row {
        std::string_view text, place, message;
    };
    const Row rows[] = {
        {"a: 1\nb: 2\na: 3\n", "3:1", "twice"},
        {"x: 1\n---\n# c\na:\n  b: 1\n  b: 2\n", "6:3", "twice"},
        {"a: b: c", "1:5", "mapping values are not allowed"},
        {"a: [1, 2\nb: 3\n", "2:2", "YAML: "},
        {"a: *x\n", "1:4", "anchor"},
        {"a: .inf\n", "1:4", "JSON"},
        {"? [a]\n: 1\n", "1:3", "key"},
        {"~: 1\n", "1:1", "key"},
        {"<<: 1\n", "1:5", "<<"},
        {"a: \xFF\n", "1:4", "YAML: "},
        {"a: \x01\n", "1:4", "control"},
        {"a: &x [*x]\n", "1:8", "contains itself"},
        {"{\n  \"a\": 1,\n  \"a\": 2\n}", "3:4", "already"},
        {"{\"a\": 1}\n{\"b\": }\n", "2:7", "JSON"},
        {"{{ .Values.x }}\n", "1:2", "rendered"},
        {"%TAG ! x\n", "2:1", "YAML"},
        {"a: 'x\n", "2:1", "quoted scalar"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const base::Error error = refused(row.text);
        CHECK(error.kind == base::ErrorKind::invalid_input);
        CHECK(error.path == row.place);
        CHECK(error.message.find(row.message) != std::string::npos);
    }
}

TEST_CASE("nesting, size and the expansion of aliases have limits") {
    CHECK(refused(repeat("[", 100000)).message.find("128") != std::string::npos);
    CHECK(refused(repeat("{a: ", 100000)).message.find("128") != std::string::npos);
    CHECK(refused(repeat("- ", 100000)).message.find("128") != std::string::npos);
    CHECK(refused("a: " + repeat("[", 129) + repeat("]", 129)).message.find("128") !=
          std::string::npos);
    CHECK(read(repeat("[", 128) + repeat("]", 128)).size() == 1);
    CHECK(refused("a: 12345678\n", {8, 128}).message.find("at most 8") != std::string::npos);

    CHECK(read(repeat("---\na: 1\n", 1000)).size() == 1000);
    CHECK(refused(repeat("---\na\n", 100'001)).message.find("documents") != std::string::npos);
    CHECK(refused(repeat("{}\n", 100'001)).message.find("documents") != std::string::npos);

    std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    std::string merges = "a0: &a0 {k: 1}\n";
    for (int i = 1; i < 30; ++i) {
        const std::string now = std::to_string(i);
        const std::string last = "*a" + std::to_string(i - 1);
        bomb += "a" + now + ": &a" + now + " [" + repeat(last + ", ", 9) + last + "]\n";
        merges += "a" + now + ": &a" + now + " {<<: [" + repeat(last + ", ", 9) + last + "]}\n";
    }
    CHECK(refused(bomb).message.find("aliases") != std::string::npos);
    CHECK(refused(merges).message.find("aliases") != std::string::npos);
    CHECK(refused("&a {<<: *a}\n").message.find("contains itself") != std::string::npos);
    CHECK(refused("&a {<<: [*a, *a]}\n").message.find("itself") != std::string::npos);
}

TEST_CASE("no prefix of a text and no lost byte ends the process") {
    const std::string text =
        "%YAML 1.1\n---\na: &x [1, {b: 'c', \"d\": |+\n  e\n}]\n? k\n: *x\n<<: {f: !!int 3}\n"
        "--- >-\n x\n...\n{\"a\": [1, \"\\u0041\", {}]}\n";
    for (std::size_t i = 0; i <= text.size(); ++i) {
        (void)kube::read_manifests(text.substr(0, i));
        (void)kube::read_manifests(text.substr(i));
        if (i < text.size()) {
            for (const char byte : {'\0', '\xFF', '{', '"', '\n', '&', '-'}) {
                std::string changed = text;
                changed[i] = byte;
                const auto manifests = kube::read_manifests(changed);
                if (!manifests) CHECK_FALSE(manifests.error().message.empty());
            }
        }
    }
}

TEST_CASE("an amount keeps its spelling, as far as JSON has it") {
    const auto manifests = read(
        "limits: {cpu: 1.0, memory: 1e9, gpu: 0.50, a: 1., b: +1.5, c: 1_0.5, d: 010, e: 2}\n"
        "requests: {cpu: &one 1.0, deep: {limits: {cpu: 2.0}, cpu: 3.0}}\n"
        "replicas: 1.0\nports: [*one, 1.0]\n");
    REQUIRE(manifests.size() == 1);
    CHECK(manifests[0].json ==
          R"({"limits":{"cpu":1.0,"memory":1e9,"gpu":0.50,"a":1,"b":1.5,"c":10.5,"d":8,"e":2},)"
          R"("requests":{"cpu":1.0,"deep":{"limits":{"cpu":2.0},"cpu":3}},)"
          R"("replicas":1,"ports":[1,1]})");
}
