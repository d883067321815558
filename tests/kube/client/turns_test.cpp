#include "kube/client/turns.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <doctest/doctest.h>

#include <string>

using namespace drawbridge::kube::client;
using std::chrono::steady_clock;

namespace {

/// Coroutines that take a turn each, hold it until they are told, and write down what happened.
struct Bench {
    boost::asio::io_context io;
    Turns turns{io.get_executor(), 2};
    std::list<Event> ends;
    std::string told;

    Event& begin(char name, steady_clock::time_point deadline = steady_clock::time_point::max()) {
        Event& end = ends.emplace_back(io.get_executor());
        auto work = [](Bench& bench, Event& until, char who,
                       steady_clock::time_point patience) -> boost::asio::awaitable<void> {
            const auto turn = co_await bench.turns.take(patience);
            bench.told += turn ? std::string{who} : std::string{'-', who};
            if (turn) co_await until.wait(steady_clock::time_point::max());
        };
        boost::asio::co_spawn(io, work(*this, end, name, deadline), boost::asio::detached);
        return end;
    }
    void end(Event& one) {
        one.set();
        settle();
    }
    void settle() {
        io.restart();
        io.poll();
    }
};

}  // namespace

TEST_CASE("as many as may are at work, and the others follow in the order in which they came") {
    Bench bench;
    Event& a = bench.begin('a');
    Event& b = bench.begin('b');
    Event& c = bench.begin('c');
    Event& d = bench.begin('d');
    bench.settle();
    CHECK(bench.told == "ab");
    bench.end(b);
    CHECK(bench.told == "abc");
    bench.end(a);
    CHECK(bench.told == "abcd");
    bench.end(c);
    bench.end(d);
    Event& e = bench.begin('e');
    Event& f = bench.begin('f');
    bench.begin('g');
    bench.settle();
    CHECK(bench.told == "abcdef");
    bench.end(e);
    bench.end(f);
    CHECK(bench.told == "abcdefg");
}

TEST_CASE("whose deadline comes first goes without, and its place is not kept") {
    Bench bench;
    Event& a = bench.begin('a');
    bench.begin('b');
    bench.begin('c', steady_clock::now());
    bench.begin('d');
    bench.settle();
    while (bench.told == "ab")
        bench.io.run_one();
    CHECK(bench.told == "ab-c");
    bench.end(a);
    CHECK(bench.told == "ab-cd");
}

TEST_CASE("once opened nobody waits") {
    Bench bench;
    for (const char name : {'a', 'b', 'c', 'd'})
        bench.begin(name);
    bench.settle();
    CHECK(bench.told == "ab");
    bench.turns.open();
    bench.settle();
    CHECK(bench.told == "abcd");
    bench.begin('e');
    bench.settle();
    CHECK(bench.told == "abcde");
}
