// What is said of a figure that is no quantity, or was meant in another unit.

#include "translate/figure_advice.hpp"

#include "tests/translate/vector_support.hpp"
#include "translate/code.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace drawbridge::oracle {
namespace {

using translate::mebibytes_meant;
using translate::percentage_meant;

/// The first denial of a container that asks for one card and this.
translate::Diagnostic denial(const std::string& resource, const std::string& value,
                             const Site& site = site_for("drawbridge", 36)) {
    Texts figures{{"nvidia.com/gpu", "1"}};
    figures[resource] = value;
    const auto answer =
        ask(pod_of({{"main", Sort::main, false, figures, figures}}), site).translation;
    REQUIRE(answer.verdict == translate::Verdict::deny);
    return answer.diagnostics.front();
}

TEST_CASE("sizes in bytes are read as people write them") {
    const std::pair<const char*, std::int64_t> rows[] = {
        {"8GB", 8192},     {"8GiB", 8192},    {" 8 gib ", 8192}, {"8g", 8192},
        {"8gi", 8192},     {"4096MiB", 4096}, {"512mb", 512},    {"1.5GB", 1536},
        {"0.5TB", 524288}, {"2000KB", 2},     {"4096 ", 4096},   {"1TB", 1048576}};
    for (const auto& [text, mib] : rows)
        CHECK_MESSAGE(mebibytes_meant(text) == mib, std::string(text));
    for (const char* text : {"", "GB", "8 apples", "8,192", "8..5GB", ".", "-8GB", "8GBs", "8B",
                             "0GB", "99999999999TB", "all", "1e3GB", "8GB 4GB"}) {
        CHECK_MESSAGE(!mebibytes_meant(text), std::string(text));
    }
}

TEST_CASE("a percent sign is taken off what is a percentage without it") {
    CHECK(percentage_meant("50%") == "50");
    CHECK(percentage_meant(" 5 % ") == "5");
    for (const char* text : {"", "%", "50", "5.5%", "-5%", "50%%", "5000%", "half%"})
        CHECK_MESSAGE(percentage_meant(text).empty(), std::string(text));
}

TEST_CASE("who writes a unit is told of MiB, and what the figure would be") {
    const auto whole = translate::info(translate::Code::not_a_quantity).fix;
    const auto told = denial("nvidia.com/gpumem", "8GB");
    CHECK(name(told.code) == "not-a-quantity");
    CHECK(told.message ==
          "container \"main\": nvidia.com/gpumem is 8GB, which is no quantity; the unit is MiB");
    CHECK(told.fix == "write 8192 for 8GB");
    CHECK(denial("nvidia.com/gpumem", "much").fix == whole);
    CHECK(denial("nvidia.com/gpumem-percentage", "50%").fix == "write 50");
    CHECK(denial("nvidia.com/gpucores", "30%").fix == "write 30");
    CHECK(denial("nvidia.com/gpucores", "half").fix == whole);
    CHECK(denial("nvidia.com/priority", "50%").fix == whole);
}

TEST_CASE("a site with another unit is told in its own") {
    auto site = site_for("drawbridge", 36);
    site.settings.defaults.memory_factor = 1024;
    const auto told = denial("nvidia.com/gpumem", "8GB", site);
    CHECK(told.message.ends_with("the unit is 1024 MiB (memoryFactor of this site)"));
    CHECK(told.fix == "write 8 for 8GB");
}

TEST_CASE("bytes are told from a figure that is too large as an API server writes them, too") {
    for (const char* text : {"8Gi", "16Mi", "8G", "8000000000", "17179869184", "500M", "500000000"})
        CHECK_MESSAGE(name(denial("nvidia.com/gpumem", text).code) == "memory-unit",
                      std::string(text));
    for (const char* text : {"5M", "5000000", "4194305", "8Ei"})
        CHECK_MESSAGE(name(denial("nvidia.com/gpumem", text).code) == "memory-too-large",
                      std::string(text));
    CHECK(denial("nvidia.com/gpumem", "17179869184").fix == "write 16384 for 17179869184");
}

TEST_CASE("the example of a code that is one figure leads to that code") {
    int tried = 0;
    for (const auto& about : translate::all_codes()) {
        const std::string example(about.example);
        const auto colon = example.find(": ");
        if (!example.starts_with("nvidia.com/gpu") && !example.starts_with("nvidia.com/prio"))
            continue;
        if (colon == std::string::npos || example.find_first_of("#\n") != std::string::npos)
            continue;
        Texts figures{{"nvidia.com/gpu", "1"}};
        figures[example.substr(0, colon)] = example.substr(colon + 2);
        auto site = site_for("drawbridge", 36);
        if (about.code == translate::Code::memory_sizes_unknown) site.cluster.memory_sizes.clear();
        const auto answer =
            ask(pod_of({{"main", Sort::main, false, figures, figures}}), site).translation;
        CHECK_MESSAGE(has_code(answer, std::string(about.name)), example);
        ++tried;
    }
    CHECK(tried >= 9);
}

}  // namespace
}  // namespace drawbridge::oracle
