#include "kube/cel.hpp"

#include <doctest/doctest.h>

using drawbridge::kube::cel_quote;
using drawbridge::kube::CelSelectors;

TEST_CASE("a quoted text means exactly this text") {
    using namespace std::string_view_literals;
    const std::pair<std::string_view, std::string_view> rows[] = {
        {"", R"("")"},
        {"NVIDIA A100-SXM4-80GB", R"("NVIDIA A100-SXM4-80GB")"},
        {R"(A"100)", R"("A\"100")"},
        {R"(a\b)", R"("a\\b")"},
        {R"(\")", R"("\\\"")"},
        {"it's `x` ${y} %s {}", R"("it's `x` ${y} %s {}")"},
        {"a\nb\r\t\0\x1f\x7f"sv, R"("a\u000ab\u000d\u0009\u0000\u001f\u007f")"},
        {"größe 日本 😀", R"("größe 日本 😀")"},
        {"\xff"
         "a\xc3",
         "\"\uFFFDa\uFFFD\""},
        {"\xed\xa0\x80", "\"\uFFFD\uFFFD\uFFFD\""},
    };
    for (const auto& [text, quoted] : rows) {
        CAPTURE(text);
        CHECK(cel_quote(text) == quoted);
    }
}

TEST_CASE("a list of values is compared exactly") {
    const CelSelectors selectors("d.dev");
    CHECK(selectors.one_of("uuid", {"GPU-a", "GPU-\"b"}, true) ==
          R"(device.driver == "d.dev" && "uuid" in device.attributes["d.dev"] && )"
          R"(device.attributes["d.dev"]["uuid"] in ["GPU-a", "GPU-\"b"])");
    CHECK(selectors.one_of("uuid", {"GPU-a"}, false) ==
          R"(device.driver == "d.dev" && !("uuid" in device.attributes["d.dev"] && )"
          R"(device.attributes["d.dev"]["uuid"] in ["GPU-a"]))");
}

TEST_CASE("a part of a name is compared without case, after the prefix") {
    const CelSelectors selectors("d.dev");
    CHECK(selectors.contains_any("productName", "NVIDIA-", {"a100", "é\"x"}, true) ==
          R"(device.driver == "d.dev" && "productName" in device.attributes["d.dev"] && )"
          R"(cel.bind(name, (device.attributes["d.dev"]["productName"].startsWith("NVIDIA") ? )"
          R"(device.attributes["d.dev"]["productName"] : )"
          R"("NVIDIA-" + device.attributes["d.dev"]["productName"]).upperAscii(), )"
          R"(["A100", "é\"X"].exists(part, name.contains(part))))");
    CHECK(selectors.contains_any("productName", "", {"A100"}, false) ==
          R"(device.driver == "d.dev" && !("productName" in device.attributes["d.dev"] && )"
          R"(cel.bind(name, device.attributes["d.dev"]["productName"].upperAscii(), )"
          R"(["A100"].exists(part, name.contains(part)))))");
}

TEST_CASE("a capacity is compared as a quantity") {
    const CelSelectors selectors("d.dev");
    const std::string_view begin =
        R"(device.driver == "d.dev" && "memory" in device.capacity["d.dev"] && )"
        R"(device.capacity["d.dev"]["memory"].compareTo()";
    CHECK(selectors.capacity_is("memory", 81251LL << 20U) ==
          std::string(begin) + R"(quantity("81251Mi")) == 0)");
    CHECK(selectors.capacity_at_least("memory", 1000) ==
          std::string(begin) + R"(quantity("1000")) >= 0)");
}

TEST_CASE("a name may lie in another domain") {
    CHECK(CelSelectors("d.dev").one_of("other.io/x", {"1"}, true) ==
          R"(device.driver == "d.dev" && "x" in device.attributes["other.io"] && )"
          R"(device.attributes["other.io"]["x"] in ["1"])");
}
