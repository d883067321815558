#include "agent/report/top_view.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

using namespace drawbridge::agent;

namespace {

const std::string status = R"({"devices": [
  {"name": "gpu-a", "memoryBytes": 10737418240, "shares": [
    {"namespace": "team", "pod": "train-0", "container": "main", "claim": "c", "claimUID": "u", "request": "gpu",
     "memoryBytes": 2147483648, "cores": 30, "usedBytes": 1073741824, "processes": 2,
     "perSecond": {"launches": 1200, "throttledMilliseconds": 655, "denied": 3}},
    {"namespace": "team", "pod": "train-0", "container": "log", "claim": "c", "claimUID": "u", "request": "gpu",
     "memoryBytes": 2147483648, "cores": 0, "usedBytes": 1073741824}]},
  {"name": "gpu-b", "memoryBytes": 1073741824, "shares": []}]})";

}  // namespace

TEST_CASE("a share's use and what it did in a second stand beside its owner") {
    const auto view = top_view(status);
    REQUIRE(view);
    CHECK(
        view->find("team       train-0  main       c      1024 / 2048 MiB 50%   30%    2          "
                   "1200        65%        3\n") != std::string::npos);
    CHECK(view->find("log        c      1024 / 2048 MiB 50%   -") != std::string::npos);
    // One share that two containers have is used once.
    CAPTURE(*view);
    CHECK(view->find("gpu-a                                         1024 / 10240 MiB 10%\n") !=
          std::string::npos);
    CHECK(view->find("\ngpu-b ") != std::string::npos);
}

TEST_CASE("two shares of a GPU in one request are both used") {
    std::string both = status;
    const std::string_view second = R"("container": "log", )";
    both.replace(both.find(second), second.size(), R"("container": "log", "share": 1, )");
    const auto view = top_view(both);
    REQUIRE(view);
    CHECK(view->find("2048 / 10240 MiB 20%\n") != std::string::npos);
}

TEST_CASE("a node without devices, and what is no status") {
    CHECK(top_view(R"({"devices": []})") == "no devices\n");
    CHECK_FALSE(top_view("{"));
}

TEST_CASE("a screen shows what fits and says how much does not") {
    CHECK(fit_screen("abcd\nef\n", 0, 0) == "abcd\nef\n");
    CHECK(fit_screen("abcd\nef\n", 2, 3) == "abc\nef\n");
    CHECK(fit_screen("a\nb\nc\nd\n", 2, 80) == "a\n... 3 more lines\n");
    CHECK(fit_screen("", 2, 80).empty());
}
