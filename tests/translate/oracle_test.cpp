// The oracle itself, on what legacy-requests.md says outright, so that it cannot be wrong in
// silence.

#include "tests/translate/cel_model.hpp"
#include "tests/translate/decimal.hpp"
#include "tests/translate/hami_oracle.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace drawbridge::oracle {
namespace {

TEST_CASE("the oracle reads quantities as an API server does") {
    struct Row {
        const char* text;
        const char* digits;
        std::int64_t exponent;
    };
    for (const auto& row :
         {Row{"3k", "3", 3}, Row{"16Ki", "16384", 0}, Row{"1e3", "1", 3}, Row{"2000m", "2", 0},
          Row{"1E", "1", 18}, Row{"+.50", "5", -1}, Row{"1Ei", "1152921504606846976", 0},
          Row{"007.", "7", 0}, Row{"1E-3", "1", -3}, Row{"0.5Gi", "536870912", 0}}) {
        CAPTURE(row.text);
        const auto read = read_quantity(row.text);
        REQUIRE(read);
        CHECK(read->digits == row.digits);
        CHECK(read->exponent == row.exponent);
    }
    for (const char* text :
         {"", "+", "3K", "1i", "1e", "1e1.5", " 1", "1 ", "0x8", "1Kim", "--1", "1e+-3", "NaN"}) {
        CAPTURE(text);
        CHECK_FALSE(read_quantity(text));
    }
    CHECK(as_kept(*read_quantity("1e-200")) == *read_quantity("1n"));
    CHECK(as_kept(*read_quantity("-1.9999999999")) == *read_quantity("-2"));
    CHECK(as_kept(*read_quantity("1e30")) == decimal(std::int64_t{9223372036854775807}));
    CHECK(*read_quantity("-9223372036854775808") == decimal(INT64_MIN));
    CHECK(read_quantity("-9223372036854775808")->whole() == INT64_MIN);
    CHECK_FALSE(read_quantity("9223372036854775808")->whole());
}

TEST_CASE("the oracle evaluates selectors, and an error is an error") {
    const ModelDevice device{
        "gpu", "d", {{"uuid", "GPU-a"}, {"productName", "Tesla T4"}}, {{"memory", 16LL << 30U}}};
    const std::string guard = R"(device.driver == "d" && )";
    for (
        const auto& [text, right] : std::vector<std::pair<std::string, bool>>{
            {R"(device.attributes["d"].uuid in ["GPU-a", 'b'])", true},
            {R"(!("uuid" in device.attributes["d"]) || device.attributes["d"].uuid == "x")", false},
            {R"(["T4"].exists(t, device.attributes["d"].productName.upperAscii().contains(t)))",
             true},
            {R"("zz" in device.attributes["other"])", false},
            {R"(device.capacity["d"].memory.compareTo(quantity("16Gi")) == 0)", true},
            {R"(device.capacity["d"].memory.isLessThan(quantity("16Gi")))", false},
            {R"(cel.bind(t, device.attributes["d"].productName, t.startsWith("NVIDIA") ? false : ("x" + t).contains("xT")))",
             true},
            {R"("\x41\u00e9\101\"\\" == "A\303\251A\"\\")", false}}) {
        CAPTURE(text);
        const auto outcome = evaluate_cel(guard + "(" + text + ")", device);
        CHECK(outcome.error == "");
        CHECK(outcome.value == right);
    }
    for (const char* text :
         {"device.attributes[\"d\"].nothing == \"x\"", "\"a", "\"a\"b\"", "1 == \"1\"", "(true",
          "true)", "device.driver == 'd' || x", "'\\q' == ''", "true && "}) {
        CAPTURE(text);
        CHECK_FALSE(evaluate_cel(text, device).value);
    }
    CHECK(is_literal_of(R"("a\"b")", "a\"b"));
    CHECK_FALSE(is_literal_of(R"("a" || "b")", "a"));
}

/// The decision table of legacy-requests.md 1.4, word by word.
TEST_CASE("the oracle gives the decision table") {
    struct Row {
        Texts limits;  // keys as in the table
        Memory memory;
        std::int64_t amount;
        std::int64_t cores;
    };
    const auto m = [](const char* v) {
        return std::pair<const std::string, std::string>{"nvidia.com/gpumem", v};
    };
    const auto p = [](const char* v) {
        return std::pair<const std::string, std::string>{"nvidia.com/gpumem-percentage", v};
    };
    const auto c = [](const char* v) {
        return std::pair<const std::string, std::string>{"nvidia.com/gpucores", v};
    };
    const std::vector<Row> rows{
        {{}, Memory::all, 0, 100},
        {{m("3k")}, Memory::mib, 3000, 0},
        {{m("3k"), c("30")}, Memory::mib, 3000, 30},
        {{m("3k"), c("100")}, Memory::mib, 3000, 100},
        {{m("0")}, Memory::all, 0, 0},
        {{p("50")}, Memory::percent, 50, 0},
        {{p("100")}, Memory::all, 0, 100},
        {{p("0")}, Memory::all, 0, 0},
        {{c("30")}, Memory::all, 0, 30},
        {{c("0")}, Memory::all, 0, 0},
        {{c("150")}, Memory::all, 0, 100},
        {{m("3k"), p("50")}, Memory::mib, 3000, 0},
        {{m("3k"), p("0")}, Memory::mib, 3000, 0},
        {{m("3k"), p("100")}, Memory::mib, 3000, 100},
        {{m("0"), p("50")}, Memory::percent, 50, 0},
    };
    const auto settings = translate::profile_settings("drawbridge").value();
    translate::Cluster cluster;
    cluster.memory_sizes = {16LL << 30U};
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (const bool counted : {true, false}) {
            CAPTURE(i);
            PodInput pod{{ContainerInput{"main", Sort::main, false, rows[i].limits, {}}},
                         {},
                         {},
                         {},
                         "",
                         ""};
            if (counted || rows[i].limits.empty()) pod.containers[0].limits["nvidia.com/gpu"] = "1";
            const auto answer = answer_of(pod, settings, cluster);
            CHECK(answer.verdict == translate::Verdict::translate);
            CHECK(answer.containers[0].share ==
                  Share{1, rows[i].memory, rows[i].amount, rows[i].cores, {}});
        }
    }
}

}  // namespace
}  // namespace drawbridge::oracle
