#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace drawbridge;

namespace {

/// Writes JSON as YAML and reads it again.
void check_round_trip(const std::string& json) {
    const std::string yaml = kube::json_to_yaml(json);
    CAPTURE(json);
    CAPTURE(yaml);
    const auto manifests = kube::read_manifests(yaml);
    REQUIRE(manifests);
    REQUIRE(manifests->size() == 1);
    const auto wanted = base::parse_json(json);
    const auto found = base::parse_json(manifests->front().json);
    REQUIRE(wanted);
    REQUIRE(found);
    CHECK(base::same_value(wanted->root(), found->root()));
}

std::string as_json(std::string_view text) {
    std::string json = "{\"k\":";
    base::append_json_string(json, text);
    json += ",";
    base::append_json_string(json, text);
    json += ":1,\"list\":[";
    base::append_json_string(json, text);
    return json += "]}";
}

}  // namespace

TEST_CASE("JSON is written in the block style of kubectl") {
    CHECK(kube::json_to_yaml(R"({"apiVersion":"v1","list":[{"a":1,"b":[]},[2,"x"],null],)"
                             R"("map":{"quoted":"yes","size":"64Gi"},"empty":{}})") ==
          "apiVersion: v1\n"
          "list:\n"
          "- a: 1\n"
          "  b: []\n"
          "- - 2\n"
          "  - x\n"
          "- null\n"
          "map:\n"
          "  quoted: \"yes\"\n"
          "  size: 64Gi\n"
          "empty: {}\n");
}

TEST_CASE("lines become a literal block where that is exact") {
    CHECK(kube::json_to_yaml(R"({"script":"set -e\n\nrun\n","last":"a\nb"})") ==
          "script: |\n  set -e\n\n  run\nlast: |-\n  a\n  b\n");
}

TEST_CASE("a text with quotes or backslashes is put in single quotes") {
    CHECK(kube::json_to_yaml(R"({"a":"{\"v\":1}","b":"it's \"so\": "})") ==
          "a: '{\"v\":1}'\nb: \"it's \\\"so\\\": \"\n");
}

TEST_CASE("every text survives as value, as key and as element") {
    const std::string_view texts[] = {"",
                                      " ",
                                      "yes",
                                      "1e3",
                                      "012",
                                      "~",
                                      "2026-01-01",
                                      " a",
                                      "a ",
                                      "a: b",
                                      "a #b",
                                      "a\n",
                                      "a\n\n",
                                      "\na",
                                      "\n",
                                      " a\nb",
                                      "a\n b",
                                      "a\n \nb",
                                      "\ta\nb",
                                      "a\tb\nc",
                                      "a\r\nb",
                                      "a\\b",
                                      "a\"b",
                                      "a'b\"",
                                      "\x01",
                                      "\x7F",
                                      "\xC2\x85",
                                      "\xE2\x80\xA8",
                                      "---",
                                      "...",
                                      "--- a",
                                      "- a",
                                      "? a",
                                      "#",
                                      "<<",
                                      "\xEF\xBB\xBF",
                                      "\xF0\x9F\x98\x80",
                                      "\xEF\xBF\xBF",
                                      "a\nb\xE2\x80\xA9"
                                      "c\n",
                                      "|",
                                      "a\n---\nb",
                                      "a\n# b\n",
                                      "%a",
                                      "{{ x }}"};
    for (const std::string_view text : texts)
        check_round_trip(as_json(text));
    check_round_trip(as_json(std::string(3000, 'k')));
    check_round_trip(as_json(std::string("a\0b", 3)));
}

TEST_CASE("every kind of value survives") {
    for (const char* json : {"true", "-1", "18446744073709551615", "1.5", "1e+23", "1e-7",
                             "\"a\\nb\"", "[]", "{}", "[[]]", "[[[1],[2]],[3]]", "[{}]",
                             R"([{"a":[{"b":{"c":[[]]}}]}])", R"({"a":{"b":{}},"":{"":[""]}})"}) {
        check_round_trip(json);
    }
}
