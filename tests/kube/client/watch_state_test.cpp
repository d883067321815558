#include "kube/client/watch_state.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge::kube::client;

namespace {

WatchEvent page(std::string version, std::string next = "") {
    return {.step = WatchStep::page_listed,
            .resource_version = std::move(version),
            .continue_token = std::move(next)};
}
WatchEvent changed(std::string version) {
    return {.step = WatchStep::changed, .resource_version = std::move(version)};
}
WatchEvent ended(bool long_lived) {
    return {.step = WatchStep::stream_ended, .long_lived = long_lived};
}
WatchEvent just(WatchStep step) {
    return {.step = step};
}

/// An action as a word, so that a test reads like a script.
std::string word(const WatchAction& action) {
    switch (action.what) {
        case WatchDo::list:
            return action.continue_token.empty() ? "list" : "list after " + action.continue_token;
        case WatchDo::watch:
            return "watch from " + action.resource_version;
        case WatchDo::read:
            return "read";
        case WatchDo::wait:
            break;
    }
    return "wait " + std::to_string(action.delay.count());
}

/// Runs events through a state; random is 1, so that waits are whole.
std::vector<std::string> play(WatchState& state, const std::vector<WatchEvent>& events) {
    std::vector<std::string> words;
    for (const WatchEvent& event : events)
        words.push_back(word(state.resume(event, 1.0)));
    return words;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a watch begins with a list, goes through its pages and watches from its version") {
    WatchState state;
    CHECK(word(state.start()) == "list");
    CHECK(
        play(state, {page("7", "a"), page("7", "b"), page("7"), just(WatchStep::stream_opened)}) ==
        Words{"list after a", "list after b", "watch from 7", "read"});
}

TEST_CASE("a stream that ends is resumed at the last version seen") {
    WatchState state;
    CHECK(play(state, {page("7"), just(WatchStep::stream_opened), changed("8"), changed("9"),
                       ended(true)}) ==
          Words{"watch from 7", "read", "read", "read", "watch from 9"});
}

TEST_CASE("a change without a version keeps the one before") {
    WatchState state;
    CHECK(play(state, {page("7"), changed(""), ended(true)}) ==
          Words{"watch from 7", "read", "watch from 7"});
}

TEST_CASE("an old version is answered with a new list, at once the first time and slower after") {
    WatchState state;
    CHECK(play(state, {page("7"), just(WatchStep::version_expired), page("8"),
                       just(WatchStep::version_expired), just(WatchStep::waited), page("9"),
                       just(WatchStep::version_expired)}) ==
          Words{"watch from 7", "list", "watch from 8", "wait 1000", "list", "watch from 9",
                "wait 2000"});
}

TEST_CASE("a change ends the row of failures") {
    WatchState state;
    CHECK(play(state,
               {just(WatchStep::list_failed), just(WatchStep::waited), just(WatchStep::list_failed),
                just(WatchStep::waited), page("1"), just(WatchStep::stream_opened), changed("2"),
                just(WatchStep::stream_failed)}) == Words{"wait 500", "list", "wait 1000", "list",
                                                          "watch from 1", "read", "read",
                                                          "wait 500"});
}

TEST_CASE("a server that accepts everything and delivers nothing is asked less and less") {
    WatchState state;
    CHECK(play(state, {page("1"), just(WatchStep::stream_opened), ended(false),
                       just(WatchStep::waited), just(WatchStep::stream_opened), ended(false)}) ==
          Words{"watch from 1", "read", "wait 500", "watch from 1", "read", "wait 1000"});
}

TEST_CASE("a long stream ends the row of failures without a change") {
    WatchState state;
    CHECK(play(state, {just(WatchStep::list_failed), just(WatchStep::waited), page("1"),
                       ended(true), ended(false)}) ==
          Words{"wait 500", "list", "watch from 1", "watch from 1", "wait 500"});
}

TEST_CASE("a fault at every step leads to a wait or a list, and then back to a watch") {
    // The path of a healthy watch; after each of its steps every fault that can follow it.
    const std::vector<WatchEvent> healthy = {
        page("1", "t"), page("1"), just(WatchStep::stream_opened), changed("2"), ended(true)};
    const WatchEvent faults[] = {just(WatchStep::list_failed), just(WatchStep::version_expired),
                                 just(WatchStep::stream_failed), ended(false)};
    for (std::size_t steps = 0; steps <= healthy.size(); ++steps) {
        for (const WatchEvent& fault : faults) {
            CAPTURE(steps);
            CAPTURE(static_cast<int>(fault.step));
            WatchState state;
            static_cast<void>(state.start());
            for (std::size_t i = 0; i < steps; ++i)
                static_cast<void>(state.resume(healthy[i], 0.0));
            WatchAction action = state.resume(fault, 0.0);
            const bool listing =
                fault.step == WatchStep::list_failed || fault.step == WatchStep::version_expired;
            if (action.what == WatchDo::wait) {
                CHECK(action.delay.count() >= 250);
                action = state.resume(just(WatchStep::waited), 0.0);
            }
            CHECK((action.what == WatchDo::list) == listing);
            CHECK(action.continue_token.empty());  // never in the middle of an old list
            if (action.what == WatchDo::list) action = state.resume(page("5"), 0.0);
            CHECK(action.what == WatchDo::watch);
        }
    }
}
