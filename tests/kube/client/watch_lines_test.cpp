#include "kube/client/watch_lines.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge;
using namespace drawbridge::kube::client;

namespace {

std::vector<std::string> lines_of(LineCutter& cutter) {
    std::vector<std::string> out;
    while (auto line = cutter.next())
        out.push_back(*line);
    return out;
}

}  // namespace

TEST_CASE("lines come out the same, however the stream is cut") {
    const std::string text = "{\"a\":1}\n\n{\"b\":2}\r\n{\"c\":3}\n";
    for (std::size_t size = 1; size <= text.size(); ++size) {
        CAPTURE(size);
        LineCutter cutter(100);
        std::vector<std::string> lines;
        for (std::size_t at = 0; at < text.size(); at += size) {
            REQUIRE(cutter.push(std::string_view(text).substr(at, size)));
            for (std::string& line : lines_of(cutter))
                lines.push_back(std::move(line));
        }
        CHECK(lines == std::vector<std::string>{"{\"a\":1}", "{\"b\":2}", "{\"c\":3}"});
        CHECK_FALSE(cutter.inside_line());
    }
}

TEST_CASE("a stream that ends inside a line is known to") {
    LineCutter cutter(100);
    REQUIRE(cutter.push("{}\n{\"half"));
    CHECK(lines_of(cutter).size() == 1);
    CHECK(cutter.inside_line());
}

TEST_CASE("a line without end is refused at its limit, a long line with an end is not") {
    LineCutter cutter(8);
    CHECK(cutter.push("12345678"));
    CHECK_FALSE(cutter.push("9"));
    LineCutter other(8);
    CHECK(other.push("1234567890\n1"));
}

TEST_CASE("watch events are read by their type") {
    struct Row {
        const char* text;
        ChangeKind kind;
        const char* version;
    };
    const Row rows[] = {
        {R"({"type":"ADDED","object":{"metadata":{"resourceVersion":"5"}}})", ChangeKind::put, "5"},
        {R"({"type":"MODIFIED","object":{"metadata":{"resourceVersion":"6"}}})", ChangeKind::put,
         "6"},
        {R"({"type":"DELETED","object":{"metadata":{"resourceVersion":"7"}}})", ChangeKind::erase,
         "7"},
        {R"({"type":"BOOKMARK","object":{"kind":"X","metadata":{"resourceVersion":"8"}}})",
         ChangeKind::bookmark, "8"},
        {R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})",
         ChangeKind::expired, ""},
        {R"({"type":"ERROR","object":{"kind":"Status","reason":"Gone"}})", ChangeKind::expired, ""},
        {R"({"type":"ERROR","object":{"kind":"Status","code":500,"message":"no"}})",
         ChangeKind::failed, ""},
        {R"({"type":"ERROR"})", ChangeKind::failed, ""}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto document = base::parse_json(row.text);
        REQUIRE(document);
        const auto change = read_change(document->root());
        REQUIRE(change);
        CHECK(change->kind == row.kind);
        CHECK(change->resource_version == row.version);
    }
}

TEST_CASE("what is no watch event is refused with its place") {
    const char* const texts[] = {
        R"([])",
        R"("x")",
        R"({"type":"NEW","object":{}})",
        R"({"type":7})",
        R"({"type":"ADDED"})",
        R"({"type":"ADDED","object":{"metadata":{"resourceVersion":5}}})",
        R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}})"};
    for (const char* const text : texts) {
        CAPTURE(text);
        const auto document = base::parse_json(text);
        REQUIRE(document);
        const auto change = read_change(document->root());
        REQUIRE_FALSE(change);
        CHECK_FALSE(change.error().path.empty());
    }
}
