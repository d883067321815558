// How much one pod may ask for, and what hostile documents of a few MiB come to.

#include "translate/pod_bounds.hpp"

#include "base/json.hpp"
#include "translate/translate.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace {

using namespace drawbridge::translate;

constexpr std::string_view template_of = "drawbridge-aaaaaaaaaaaaaaaa";  // and four letters

Translation translate_text(const std::string& pod, const Settings& settings = {}) {
    const auto document = drawbridge::base::parse_json(pod);
    REQUIRE(document.has_value());
    return translate_pod({document->root(), {}, Operation::create}, settings, {});
}

/// Containers that ask for one GPU each, the memory of the n-th being `memory(n)`.
template <typename Memory>
std::string containers(std::size_t count, Memory memory, std::string_view name = "c") {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) {
        list += fmt::format(
            R"({}{{"name":"{}{}","resources":{{"limits":{{"nvidia.com/gpu":1,"nvidia.com/gpumem":{}}}}}}})",
            i == 0 ? "" : ",", name, i, memory(i));
    }
    return "[" + list + "]";
}

std::string pod(const std::string& list) {
    return R"({"metadata":{},"spec":{"containers":)" + list + "}}";
}

/// Entries for `count` templates of ours, each another one.
std::string entries(std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) {
        std::string letters = "aaaa";
        std::size_t rest = i;
        for (char& letter : letters) {
            letter = static_cast<char>('a' + rest % 26);
            rest /= 26;
        }
        list += fmt::format(R"({}{{"name":"e{}","resourceClaimTemplateName":"{}{}"}})",
                            i == 0 ? "" : ",", i, template_of, letters);
    }
    return "[" + list + "]";
}

bool says_too_large(const Translation& translation) {
    return std::ranges::count(translation.diagnostics, Code::pod_too_large, &Diagnostic::code) == 1;
}

const auto same = [](std::size_t) { return std::size_t{1000}; };
const auto other = [](std::size_t i) { return 1000 + i; };

}  // namespace

TEST_CASE("as many containers as any node could run are translated, more are denied") {
    const auto most = translate_text(pod(containers(max_gpu_containers, same)));
    CHECK(most.verdict == Verdict::translate);
    CHECK(most.templates.size() == 1);
    const auto more = translate_text(pod(containers(max_gpu_containers + 1, same)));
    CHECK(more.verdict == Verdict::deny);
    CHECK(says_too_large(more));
    CHECK(more.patch.empty());
}

TEST_CASE("a pod may come to so many templates and no more") {
    const auto most = translate_text(pod(containers(max_templates, other)));
    CHECK(most.verdict == Verdict::translate);
    CHECK(most.templates.size() == max_templates);
    const auto more = translate_text(pod(containers(max_templates + 1, other)));
    CHECK(more.verdict == Verdict::deny);
    REQUIRE(says_too_large(more));
    CHECK(more.diagnostics.front().message ==
          fmt::format("the containers ask for {} different GPU shares; {} are possible",
                      max_templates + 1, max_templates));
    CHECK(more.templates.empty());
}

TEST_CASE("a pod may name so many templates and no more") {
    const auto with = [](std::size_t count) {
        return translate_text(R"({"metadata":{},"spec":{"containers":[{"name":"c"}],)"
                              R"("resourceClaims":)" +
                              entries(count) + "}}");
    };
    CHECK(with(max_templates).referenced_templates.size() == max_templates);
    CHECK(with(max_templates).verdict == Verdict::leave);
    const auto more = with(max_templates + 1);
    CHECK(more.verdict == Verdict::deny);
    CHECK(says_too_large(more));
}

TEST_CASE("lists of devices that make too long an expression are denied once") {
    const auto with = [](std::size_t uuids) {
        std::string list;
        for (std::size_t i = 0; i < uuids; ++i)
            list += fmt::format("GPU-{:032},", i);
        return translate_text(R"({"metadata":{"annotations":{"nvidia.com/use-gpuuuid":")" + list +
                              R"("}},"spec":{"containers":)" + containers(3, other) + "}}");
    };
    CHECK(with(200).verdict == Verdict::translate);
    const auto more = with(300);
    CHECK(more.verdict == Verdict::deny);
    REQUIRE(more.diagnostics.size() == 1);
    CHECK(more.diagnostics.front().code == Code::selector_too_long);
    CHECK(more.diagnostics.front().path == "/metadata/annotations");
}

TEST_CASE("one template may be named as often as anyone likes") {
    std::string list;
    for (int i = 0; i < 5000; ++i) {
        list += fmt::format(R"({}{{"name":"e{}","resourceClaimTemplateName":"{}aaaa"}})",
                            i == 0 ? "" : ",", i, template_of);
    }
    const auto translation = translate_text(
        R"({"metadata":{},"spec":{"containers":[{"name":"c"}],"resourceClaims":[)" + list + "]}}");
    CHECK(translation.referenced_templates.size() == 1);
}

TEST_CASE("the resource that makes a share is named where whole cards alone are handed out") {
    const Settings whole_cards = profile_settings("nvidia").value();
    const auto blamed = [&](const std::string& figures) {
        const auto translation =
            translate_text(pod(R"([{"name":"c","resources":{"limits":{"nvidia.com/gpu":1,)" +
                               figures + R"(,"nvidia.com/priority":0}}}])"),
                           whole_cards);
        REQUIRE(translation.verdict == Verdict::deny);
        REQUIRE(translation.diagnostics.front().code == Code::fraction_unsupported);
        return translation.diagnostics.front().resource;
    };
    CHECK(blamed(R"("nvidia.com/gpumem":3000)") == "nvidia.com/gpumem");
    CHECK(blamed(R"("nvidia.com/gpumem":3000,"nvidia.com/gpucores":100)") == "nvidia.com/gpumem");
    CHECK(blamed(R"("nvidia.com/gpucores":30)") == "nvidia.com/gpucores");
    CHECK(blamed(R"("nvidia.com/gpumem-percentage":50)") == "nvidia.com/gpumem-percentage");
}

TEST_CASE("what could not be read is not called 0") {
    for (const std::string_view count : {R"("0.5")", "true", R"("x")", "-1"}) {
        const auto translation = translate_text(
            pod(fmt::format(R"([{{"name":"c","resources":{{"limits":{{"nvidia.com/gpu":{},)"
                            R"("nvidia.com/gpumem":3000}}}}}}])",
                            count)));
        CHECK(translation.verdict == Verdict::deny);
        CHECK(translation.diagnostics.size() == 1);
    }
}

TEST_CASE("advice on memory is in the site's own unit") {
    Settings site;
    site.defaults.memory_factor = 1024;
    const auto translation = translate_text(
        pod(R"([{"name":"c","resources":{"limits":{"nvidia.com/gpu":1,"nvidia.com/gpumem":8192}}}])"),
        site);
    REQUIRE(translation.verdict == Verdict::deny);
    const Diagnostic& denial = translation.diagnostics.front();
    CHECK(denial.message.find("1024 MiB") != std::string::npos);
    CHECK(denial.fix.find("write the memory in units of 1024 MiB, for example 8 for") !=
          std::string::npos);
}
