#include "base/json.hpp"
#include "kube/manifest.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace drawbridge;
using kube::JsonPatch;
using kube::PointerPath;

namespace {

/// `+ /path JSON`, `- /path`, `= /path JSON`, one operation a line.
JsonPatch patch_of(std::string_view lines) {
    JsonPatch patch;
    while (!lines.empty()) {
        const std::string line(lines.substr(0, lines.find('\n')));
        lines.remove_prefix(std::min(line.size() + 1, lines.size()));
        const std::size_t space = std::min(line.find(' ', 2), line.size());
        const PointerPath path(std::string_view(line).substr(2, space - 2));
        const std::string json = space < line.size() ? line.substr(space + 1) : "";
        if (line[0] == '+') patch.add(path, json);
        if (line[0] == '-') patch.remove(path);
        if (line[0] == '=') patch.replace(path, json);
    }
    return patch;
}

struct Row {
    const char* what;
    std::string_view before, patch, after;
};

kube::Manifest manifest_of(std::string_view text) {
    const auto manifests = kube::read_manifests(text);
    REQUIRE_MESSAGE(manifests, manifests.error().message);
    REQUIRE(manifests->size() == 1);
    return manifests->front();
}

void check_in_place(const Row& row) {
    CAPTURE(row.what);
    const auto patched = kube::patch_manifest(manifest_of(row.before), patch_of(row.patch));
    REQUIRE(patched);
    CHECK_FALSE(patched->rewritten);
    CHECK(patched->text == row.after);
}

}  // namespace

TEST_CASE("block maps are changed at their place") {
    const Row rows[] = {
        {"a member goes with the comment behind it, not with those before it",
         "a: 1\n# about b\nb: 2  # two\n# about c\nc: 3\n", "- /b",
         "a: 1\n# about b\n# about c\nc: 3\n"},
        {"a member of several lines goes whole",
         "a: 1\nb:\n  x: 1\n\n  # c\n  r: [1,\n   2]\nc: 3\n", "- /b", "a: 1\nc: 3\n"},
        {"the last member goes", "a:\n  b: 1\n  c: 2\nd: 3", "- /a/c\n- /d", "a:\n  b: 1\n"},
        {"a text block goes", "a: |\n  x\n\n  y\nb: 1\n", "- /a", "b: 1\n"},
        {"a member is added behind the last one, in the map's own indentation",
         "a:\n    b: 1  # one\n# end\nc: 2\n", "+ /a/d {\"e\":\"yes\"}",
         "a:\n    b: 1  # one\n    d:\n      e: \"yes\"\n# end\nc: 2\n"},
        {"the file does not end with a line break", "a: 1", "+ /b [1]", "a: 1\nb:\n- 1"},
        {"line breaks stay what they are", "a:\r\n  b: 1\r\nc: 2\r\n", "+ /a/d [{\"e\":1}]\n- /c",
         "a:\r\n  b: 1\r\n  d:\r\n  - e: 1\r\n"},
        {"a scalar is replaced", "a: 1  # one\nb: 'x'\n", "= /a \"two\"\n= /b null",
         "a: two  # one\nb: null\n"},
        {"a scalar becomes a map", "a: null  # c\nb: 1\n", "= /a {\"x\":1}",
         "a:  # c\n  x: 1\nb: 1\n"},
        {"nothing becomes a list", "a:\nb: 1\n", "+ /a [1,2]", "a:\n- 1\n- 2\nb: 1\n"},
        {"a map becomes a scalar", "a: # c\n  x: 1\n  r: 2\nb: 1\n", "= /a true",
         "a: true\nb: 1\n"},
        {"an empty map grows into block style", "a: {}  # c\nb: 1\n", "+ /a/x 1\n+ /a/r [2]",
         "a:  # c\n  x: 1\n  r:\n  - 2\nb: 1\n"},
        {"all members go", "a:\n  x: 1\n  r: 2  # c\nb: 1\n", "- /a/x\n- /a/r",
         "a: {}  # c\nb: 1\n"},
        {"all members go and one comes", "a:\n  x: 1\n  r: 2  # c\nb: 1\n",
         "- /a/x\n- /a/r\n+ /a/z [1]", "a:\n  z:\n  - 1\nb: 1\n"},
        {"keys in quotes, of other types, with escapes", "\"a/b\": 1\n1: x\nyes: y\n~tilde: z\n",
         "- /a~1b\n- /1\n- /true\n= /~0tilde 2", "~tilde: 2\n"},
    };
    for (const Row& row : rows)
        check_in_place(row);
}

TEST_CASE("maps that begin behind a dash are changed at their place") {
    const Row rows[] = {
        {"the first member goes", "- a: 1\n  b: 2\n- c: 3\n", "- /0/a", "- b: 2\n- c: 3\n"},
        {"the first two go", "- a: 1\n  b:\n    x: 1\n  c: 2\n", "- /0/a\n- /0/b", "- c: 2\n"},
        {"a comment behind the first stays", "- a: 1\n  # about b\n  b: 2\n", "- /0/a",
         "-\n  # about b\n  b: 2\n"},
        {"all go and one comes", "- a: 1  # c\n- b: 2\n", "- /0/a\n+ /0/z {\"r\":1}",
         "- z:\n    r: 1\n- b: 2\n"},
        {"all go", "- a: 1\n- b: 2\n", "- /0/a", "- {}\n- b: 2\n"},
        {"one comes", "x:\n  -   a: 1\n", "+ /x/0/b 2", "x:\n  -   a: 1\n      b: 2\n"},
    };
    for (const Row& row : rows)
        check_in_place(row);
}

TEST_CASE("lists are changed at their place") {
    const Row rows[] = {
        {"elements come, indented like the others", "a:\n  - x: 1\n    r: 2\n\nb: 1\n",
         "+ /a/- {\"z\":[1]}\n+ /a/- 2",
         "a:\n  - x: 1\n    r: 2\n  - z:\n      - 1\n  - 2\n\nb: 1\n"},
        {"elements come into a list that is not indented", "a:\n- x\n", "+ /a/- {\"r\":1}",
         "a:\n- x\n- r: 1\n"},
        {"wide dashes", "a:\n-   x: 1\n", "+ /a/- {\"r\":1,\"z\":2}",
         "a:\n-   x: 1\n-   r: 1\n    z: 2\n"},
        {"a list and its parent grow at one place", "a:\n  b:\n  - 1\n",
         "+ /a/b/- 2\n+ /a/c 3\n+ /d 4", "a:\n  b:\n  - 1\n  - 2\n  c: 3\nd: 4\n"},
        {"an element is replaced", "a:\n- 1  # one\n- x: 1\n",
         "= /a/0 \"no\"\n= /a/1 {\"r\":[1],\"z\":2}", "a:\n- \"no\"  # one\n- r:\n  - 1\n  z: 2\n"},
        {"an empty list grows into block style", "a: []\n", "+ /a/- {\"x\":1}", "a:\n- x: 1\n"},
        {"new lists are indented as the document does it", "a:\n  - 1\nb:\n  c: 1\n", "+ /b/d [2]",
         "a:\n  - 1\nb:\n  c: 1\n  d:\n    - 2\n"},
    };
    for (const Row& row : rows)
        check_in_place(row);
}

TEST_CASE("flow style is changed between its brackets") {
    const Row rows[] = {
        {"a member goes", "a: {x: 1, r: 2, z: 3}  # c\n", "- /a/r", "a: {x: 1, z: 3}  # c\n"},
        {"the first ones go", "a: {x: 1, r: 2, z: 3}\n", "- /a/x\n- /a/r", "a: {z: 3}\n"},
        {"the last ones go", "a: {x: 1, r: 2, z: 3}\n", "- /a/z\n- /a/r", "a: {x: 1}\n"},
        {"all go", "a: { x: 1, r: 2 }\n", "- /a/x\n- /a/r", "a: {}\n"},
        {"members come", "a: {x: 1}\n", "+ /a/r {\"z\":[\"no\",1]}",
         "a: {x: 1, \"r\": {\"z\": [\"no\", 1]}}\n"},
        {"one goes and one comes", "a: {x: 1, r: 2}\n", "- /a/r\n+ /a/z 3",
         "a: {x: 1, \"z\": 3}\n"},
        {"a value is replaced", "a: {x: 1, r: [1, 2]}\n", "= /a/x \"b\"\n= /a/r/1 null",
         "a: {x: \"b\", r: [1, null]}\n"},
        {"a list grows", "a: [1]\nb: {c: []}\n", "+ /a/- 2\n+ /b/c/- 3",
         "a: [1, 2]\nb: {c: [3]}\n"},
        {"JSON over several lines", "{\"a\": {\n  \"x\": 1,\n  \"r\": 2\n}, b: 1}\n", "- /a/x",
         "{\"a\": {\n  \"r\": 2\n}, b: 1}\n"},
    };
    for (const Row& row : rows)
        check_in_place(row);
}

TEST_CASE("JSON text keeps its form") {
    const Row row{"JSON", "{\"a\": 9007199254740993,\n \"b\": [1]}", "+ /c true\n+ /b/- 2",
                  "{\"a\": 9007199254740993,\n \"b\": [1,2],\n \"c\": true}"};
    check_in_place(row);
}

TEST_CASE("where the text cannot be changed in place it is written anew, with the right value") {
    const Row rows[] = {
        {"a map behind an anchor", "a: &x {b: 1}\nc: *x\n", "+ /a/d 2",
         "a:\n  b: 1\n  d: 2\nc:\n  b: 1\n"},
        {"a place behind an alias", "a: &x\n  b: 1\nc: *x\n", "- /c/b", "a:\n  b: 1\nc: {}\n"},
        {"a merged member", "a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", "- /c/b",
         "a:\n  b: 1\nc:\n  d: 2\n"},
        {"a key with a question mark", "? a\n: 1\nb: 2\n", "- /a", "b: 2\n"},
        {"an anchor that goes while its alias stays", "a: &x 1\nb: *x\n", "- /a", "b: 1\n"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.what);
        const auto patched = kube::patch_manifest(manifest_of(row.before), patch_of(row.patch));
        REQUIRE(patched);
        CHECK(patched->rewritten);
        CHECK(patched->text == row.after);
    }
}

TEST_CASE("anchors elsewhere do no harm") {
    check_in_place({"anchor", "a: &x 1\nb: *x\nc:\n  d: 1\n  e: 2\n", "- /c/d",
                    "a: &x 1\nb: *x\nc:\n  e: 2\n"});
    check_in_place({"alias goes", "a: &x {r: 1}\nb: *x\n", "- /b", "a: &x {r: 1}\n"});
}

TEST_CASE("items of a List are left out") {
    struct Item {
        std::string_view text;
        std::vector<std::size_t> dropped;
        std::string_view after;
    };
    const Item rows[] = {
        {"kind: List\nitems:\n# first\n- a: 1\n# second\n- b: 2  # c\n- c: 3\n",
         {1},
         "kind: List\nitems:\n# first\n- a: 1\n# second\n- c: 3\n"},
        {"items:\n- a: 1\n- # about b\n\n  # - more\n  b: 2\n- c: 3\n",
         {1},
         "items:\n- a: 1\n- c: 3\n"},
        {"kind: List\nitems:\n- a: 1\n- b: 2\nx: 1\n", {0, 1}, "kind: List\nitems: []\nx: 1\n"},
        {"{kind: List, items: [{a: 1}, {b: 2}, {c: 3}]}", {0, 2}, "{kind: List, items: [{b: 2}]}"},
        {"{\"items\": [1, 2, 3], \"x\": 1}", {0}, "{\"items\": [2, 3], \"x\": 1}"},
        {"{\"items\": [1, 2, 3]}", {1}, "{\"items\": [1, 3]}"},
        {"{\"items\": [1, 2, 3]}", {2}, "{\"items\": [1, 2]}"},
        {"{\"items\": [1, 2, 3, 4]}", {0, 1, 3}, "{\"items\": [3]}"},
        {"{\"items\": [ 1, 2 ]}", {0, 1}, "{\"items\": [  ]}"},
    };
    for (const Item& row : rows) {
        CAPTURE(row.text);
        const auto patched = kube::patch_manifest(manifest_of(row.text), {}, row.dropped);
        REQUIRE(patched);
        CHECK_FALSE(patched->rewritten);
        CHECK(patched->text == row.after);
    }
}

TEST_CASE("an element is changed while another one goes") {
    const auto patched =
        kube::patch_manifest(manifest_of("items:\n- a: 1\n- b: 2\n- c: 3\n"),
                             patch_of("= /items/2/c 4"), std::vector<std::size_t>{0});
    REQUIRE(patched);
    CHECK(patched->text == "items:\n- b: 2\n- c: 4\n");
}

TEST_CASE("a patch that names no place of the document fails") {
    CHECK_FALSE(kube::patch_manifest(manifest_of("a: 1\n"), patch_of("- /b")));
    CHECK_FALSE(kube::patch_manifest(manifest_of("a: 1\n"), patch_of("+ /a/b 1")));
}
