#include "base/log.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace drawbridge::base {
namespace {

using namespace std::chrono_literals;

/// Catches the log's lines as long as it lives.
class Capture {
public:
    Capture() {
        set_log_sink([this](std::string_view line) { lines.emplace_back(line); });
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;
    ~Capture() {
        set_log_sink({});
        set_log_level(Level::info);
    }

    std::vector<std::string> lines;
};

TEST_CASE("a line has its fixed keys first and its fields in order") {
    const std::chrono::system_clock::time_point time(1'700'000'000'007ms);
    const std::string text = "value";
    const std::vector<Field> fields = {{"uid", "u-1"},
                                       {"owner", text},
                                       {"micros", std::int64_t{-5}},
                                       {"ratio", 0.5},
                                       {"dry", true}};
    CHECK(format_log_line(time, Level::warn, "review", fields) ==
          R"({"ts":"2023-11-14T22:13:20.007Z","level":"warn","msg":"review","uid":"u-1",)"
          R"("owner":"value","micros":-5,"ratio":0.5,"dry":true})"
          "\n");
    CHECK(format_log_line(std::chrono::system_clock::time_point(-1ms), Level::debug, "", {}) ==
          "{\"ts\":\"1969-12-31T23:59:59.999Z\",\"level\":\"debug\",\"msg\":\"\"}\n");
}

TEST_CASE("user text can neither end a line nor add a key") {
    Capture log;
    const std::string evil =
        "a\"}\n{\"level\":\"error\",\"msg\":\"forged\r\n\x1b[31m\xE2\x80\xA8\xFF";
    log_event(Level::info, evil, {{"owner", evil}, {"count", 1}});
    REQUIRE(log.lines.size() == 1);
    const std::string& line = log.lines[0];
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    CHECK(line.back() == '\n');
    CHECK(std::none_of(line.begin(), line.end() - 1,
                       [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
    const auto object = nlohmann::json::parse(line);
    CHECK(object.size() == 5);
    CHECK(object["level"] == "info");
    CHECK(object["owner"] == object["msg"]);
}

TEST_CASE("lines below the level are dropped, and the level changes at run time") {
    Capture log;
    log_event(Level::debug, "no");
    log_event(Level::info, "yes", {});
    set_log_level(Level::error);
    CHECK(log_level() == Level::error);
    CHECK(!log_enabled(Level::warn));
    log_event(Level::warn, "no");
    log_event(Level::error, "yes");
    set_log_level(Level::debug);
    log_event(Level::debug, "yes");
    REQUIRE(log.lines.size() == 3);
    for (const auto& line : log.lines)
        CHECK(nlohmann::json::parse(line)["msg"] == "yes");
}

TEST_CASE("levels have names") {
    for (const Level level : {Level::debug, Level::info, Level::warn, Level::error}) {
        CHECK(level_from_name(level_name(level)) == level);
    }
    CHECK(level_from_name("INFO") == std::nullopt);
    CHECK(level_from_name("") == std::nullopt);
}

TEST_CASE("fields may come in a vector") {
    Capture log;
    std::vector<Field> fields = {{"a", "x"}};
    fields.push_back({"b", false});
    log_event(Level::info, "m", fields);
    REQUIRE(log.lines.size() == 1);
    CHECK(nlohmann::json::parse(log.lines[0])["b"] == false);
}

TEST_CASE("threads write whole lines") {
    Capture log;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([i] {
            for (int n = 0; n < 100; ++n)
                log_event(Level::info, "m", {{"thread", i}, {"n", n}});
        });
    }
    for (auto& thread : threads)
        thread.join();
    CHECK(log.lines.size() == 400);
    for (const auto& line : log.lines)
        REQUIRE(nlohmann::json::accept(line));
}

}  // namespace
}  // namespace drawbridge::base
