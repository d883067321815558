#include "kube/client/watcher.hpp"

#include "scripted_transport.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

using namespace drawbridge;
using namespace drawbridge::kube::client;
using Strings = std::vector<std::string>;

namespace {

/// Writes down what it hears, and ends the watcher at an object called "end".
struct Listener final : WatchSink {
    Strings heard;
    std::function<void()> at_end;

    void list_begun() override { heard.emplace_back("begin"); }
    void put(base::JsonView object) override {
        const std::string name(object["metadata"]["name"].string_or("?"));
        heard.push_back("put " + name);
        if (name == "end") at_end();
    }
    void list_complete() override { heard.emplace_back("complete"); }
    void erase(base::JsonView object) override {
        heard.push_back("erase " + std::string(object["metadata"]["name"].string_or("?")));
    }
};

struct Bench {
    boost::asio::io_context io;
    Script script;
    RestClient client{io.get_executor(), std::make_unique<ScriptedTransport>(script),
                      std::make_unique<ScriptedAccess>()};
    Listener listener;
    Strings health;

    /// Plays the script; its last object must be "end".
    void play() {
        WatchTarget target{.path = "/things", .selection = "labelSelector=a", .page_size = 2};
        target.max_event = 1000;
        target.stream_time = std::chrono::seconds(100);
        Watcher watcher(io.get_executor(), client, target, listener,
                        [&](const std::optional<base::Error>& error) {
                            health.push_back(error ? error->message : "well");
                        });
        listener.at_end = [&] { watcher.cancel(); };
        boost::asio::co_spawn(io, watcher.run([] { return 0.0; }),
                              [](const std::exception_ptr& failure) {
                                  if (failure) std::rethrow_exception(failure);
                              });
        io.run();
    }
};

ApiAnswer list(std::string version, std::string next, const Strings& names) {
    std::string items;
    for (const std::string& name : names) {
        if (!items.empty()) items += ',';
        items += R"({"metadata":{"name":")" + name + R"("}})";
    }
    return {.status = 200,
            .body = R"({"metadata":{"resourceVersion":")" + version + R"(","continue":")" + next +
                    R"("},"items":[)" + items + "]}"};
}

std::string event(std::string type, std::string name, std::string version) {
    return R"({"type":")" + type + R"(","object":{"metadata":{"name":")" + name +
           R"(","resourceVersion":")" + version + "\"}}}\n";
}

const std::string expired =
    "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"too old\"}}\n";
const std::string watch_from =
    "GET /things?labelSelector=a&watch=true&allowWatchBookmarks=true&resourceVersion=";
const std::string first_list = "GET /things?labelSelector=a&limit=2";

}  // namespace

TEST_CASE("pages, changes, bookmarks and deletions reach the sink in order") {
    Bench bench;
    bench.script.next = {list("5", "t/1+", {"a", "b"}), list("5", "", {"c"}),
                         Strings{event("ADDED", "d", "6") + event("DELETED", "a", "7"),
                                 event("BOOKMARK", "", "9"), event("MODIFIED", "end", "10")}};
    bench.play();
    CHECK(bench.listener.heard ==
          Strings{"begin", "put a", "put b", "put c", "complete", "put d", "erase a", "put end"});
    CHECK(bench.script.targets() == Strings{first_list, first_list + "&continue=t%2F1%2B",
                                            watch_from + "5&timeoutSeconds=100"});
    CHECK(bench.health == Strings{"well"});
}

TEST_CASE("a closed, cut or half-read stream is resumed at the last whole event") {
    for (const Strings& broken :
         {Strings{event("ADDED", "d", "6"), event("BOOKMARK", "", "8")},
          Strings{event("BOOKMARK", "", "8"), "cut"},
          Strings{event("BOOKMARK", "", "8"), "{\"type\":\"ADDED\",\"obj"}}) {
        Bench bench;
        bench.script.next = {list("5", "", {}), broken, Strings{event("ADDED", "end", "9")}};
        bench.play();
        CHECK(bench.script.targets().back() == watch_from + "8&timeoutSeconds=100");
    }
}

TEST_CASE("410 in the stream or as an answer leads to a new list") {
    for (const Scripted& gone : {Scripted{Strings{expired}}, Scripted{ApiAnswer{.status = 410}}}) {
        Bench bench;
        bench.script.next = {list("5", "", {"a"}), gone, list("20", "", {"b"}),
                             Strings{event("ADDED", "end", "21")}};
        bench.play();
        CHECK(bench.listener.heard ==
              Strings{"begin", "put a", "complete", "begin", "put b", "complete", "put end"});
        CHECK(bench.script.targets().back() == watch_from + "20&timeoutSeconds=100");
    }
}

TEST_CASE("a page that does not come begins the list anew, whatever the reason") {
    const Scripted faults[] = {
        ApiAnswer{.status = 410},
        ApiAnswer{.status = 500},
        ApiAnswer{.status = 200, .body = "garbage"},
        ApiAnswer{.status = 200, .body = "{}"},
        ApiAnswer{.status = 200, .body = R"({"metadata":{"resourceVersion":"1"},"items":7})"},
        base::Error{base::ErrorKind::unavailable, "down", {}}};
    for (const Scripted& fault : faults) {
        Bench bench;
        bench.script.next = {list("5", "t", {"a", "b"}), fault, list("6", "", {"end"})};
        bench.play();
        CHECK(bench.script.targets() ==
              Strings{first_list, first_list + "&continue=t", first_list});
        REQUIRE(bench.listener.heard.size() >= 4);
        CHECK(bench.listener.heard[3] != "complete");
        CHECK(bench.health.size() >= 1);
        CHECK(bench.health[0] != "well");
    }
}

TEST_CASE("garbage and endless lines in a stream end it, and the watch resumes") {
    for (const std::string& bad :
         {std::string("garbage\n"), std::string("{\"type\":\"NEW\"}\n"), std::string(2000, 'x'),
          std::string("{\"type\":\"ERROR\",\"object\":{\"code\":500}}\n")}) {
        Bench bench;
        bench.script.next = {list("5", "", {}), Strings{event("ADDED", "d", "6"), bad},
                             Strings{event("ADDED", "end", "7")}};
        bench.play();
        CHECK(bench.script.targets().back() == watch_from + "6&timeoutSeconds=100");
        REQUIRE(bench.health.size() >= 3);
        CHECK(bench.health[0] == "well");
        CHECK(bench.health[1] != "well");
        CHECK(bench.health[2] == "well");
    }
}

TEST_CASE("a watch that is refused is tried again from the same version") {
    for (const int status : {403, 404, 429, 503}) {
        CAPTURE(status);
        Bench bench;
        bench.script.next = {list("5", "", {}), ApiAnswer{.status = status},
                             Strings{event("ADDED", "end", "7")}};
        bench.play();
        CHECK(bench.script.targets().back() == watch_from + "5&timeoutSeconds=100");
    }
}
