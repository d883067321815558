// The values of YAML texts, against the answers of Kubernetes' own reader.

#include "base/json.hpp"
#include "kube/manifest.hpp"
#include "kube/manifest_scalar.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

using namespace drawbridge;

namespace {

constexpr std::pair<std::string_view, std::string_view> reader_answers[] = {
#include "yaml_values.inc"
};

/// Where we differ on purpose. Empty: refused.
const std::map<std::string_view, std::string_view> our_answers = {
    // A key that is there twice is a mistake that nobody should have to find out about later.
    {"a: 1\nb: 2\na: 3", ""},
    {"1: a\n\"1\": b", ""},
    {"\"a\": 1\n\"a\": 2", ""},
    // YAML 1.2, which libyaml reads and the port does not.
    {"%YAML 1.2\n---\na: 1", R"({"a":1})"},
    {R"(a: "\x41\u0042\/")", R"({"a":"AB/"})"},
    {"a\r\n: 1", ""},
    // Tags that no manifest has, taken for what they most likely mean.
    {"a: !!timestamp foo", R"({"a":"foo"})"},
    {"a: !!timestamp 12", R"({"a":"12"})"},
    {"a: !!float 18446744073709551615", R"({"a":18446744073709552000})"},
    {"! <<: {a: 1}", R"({"<<":{"a":1}})"},
    // The text behind a marker counts as the document's first line.
    {"--- a: 1", R"({"a":1})"},
};

std::string our_answer(std::string_view text) {
    const auto manifests = kube::read_manifests(text);
    if (!manifests) return "";
    return manifests->empty() ? "null" : manifests->front().json;
}

bool same(std::string_view left, std::string_view right) {
    const auto a = base::parse_json(std::string(left));
    const auto b = base::parse_json(std::string(right));
    return a && b && base::same_value(a->root(), b->root());
}

}  // namespace

TEST_CASE("a YAML text has the value that Kubernetes gives it") {
    for (const auto& [text, value] : reader_answers) {
        CAPTURE(text);
        const auto own = our_answers.find(text);
        const std::string_view wanted = own == our_answers.end() ? value : own->second;
        const std::string found = our_answer(text);
        if (wanted.empty()) {
            CHECK(found == "");
        } else {
            CHECK_MESSAGE(same(found, wanted), found, " instead of ", wanted);
        }
    }
}

TEST_CASE("a text that is written without quotes is read as this text") {
    const std::string_view safe[] = {"a",
                                     "drawbridge-x7",
                                     "nvidia.com/gpu",
                                     "a b",
                                     "a#b",
                                     "a:b",
                                     "http://x:80/y",
                                     "--flag=1",
                                     "-x",
                                     "gpu.drawbridge.dev",
                                     "v1",
                                     "é"};
    for (const std::string_view text : safe) {
        CAPTURE(text);
        CHECK(kube::is_safe_plain(text));
        CHECK(our_answer("k: " + std::string(text)) == "{\"k\":\"" + std::string(text) + "\"}");
    }
}

TEST_CASE("a text that would be read as something else needs quotes") {
    const std::string_view unsafe[] = {"",         " a",
                                       "a ",       "yes",
                                       "No",       "y",
                                       "off",      "true",
                                       "null",     "~",
                                       "1",        "012",
                                       "0x1F",     "1e3",
                                       "1_000",    ".5",
                                       "-1",       "+1",
                                       ".inf",     ".nan",
                                       "a: b",     "a:",
                                       "a #b",     "#a",
                                       "- a",      "-",
                                       "---",      "... a",
                                       "...",      "? a",
                                       ": a",      "{a",
                                       "[a",       "&a",
                                       "*a",       "!a",
                                       "|",        ">",
                                       "'a",       "\"a",
                                       "%a",       "@a",
                                       "`a",       "<<",
                                       "=",        "2026-01-01",
                                       "12:30:45", "a\nb",
                                       "a\tb",     "\x7F",
                                       "1.2.3",    "\xE2\x80\xA8",
                                       "\xC2\x85", "\xEF\xBB\xBF",
                                       "0b1",      "0o7"};
    for (const std::string_view text : unsafe) {
        CAPTURE(text);
        CHECK_FALSE(kube::is_safe_plain(text));
    }
}
