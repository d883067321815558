// What is told late: the outbox, events and their series, the content of a claim's status.

#include "agent/api/api_text.hpp"
#include "agent/api/claim_status.hpp"
#include "agent/api/event_book.hpp"
#include "agent/api/outbox.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string>

using namespace drawbridge::agent;
using drawbridge::base::ErrorKind;
using drawbridge::base::parse_json;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

Notice notice(const std::string& key, const std::string& body = "{}") {
    return {.key = key, .method = "POST", .target = "/x", .body = body};
}

std::string key_of(const Outbox& outbox, Outbox::Time now) {
    const auto turn = outbox.next(now);
    return turn ? turn->notice.key : "";
}

std::chrono::milliseconds wait(int failures) {
    return std::chrono::seconds(failures);
}

Occurrence refused(const std::string& pod, const std::string& note) {
    return {.regarding = {.api_version = "v1",
                          .kind = "Pod",
                          .name_space = "ns",
                          .name = pod,
                          .uid = "u-" + pod},
            .reason = "PrepareRefused",
            .action = "PrepareDevices",
            .note = note};
}

drawbridge::base::Result<drawbridge::base::JsonDocument> failure(ErrorKind kind) {
    return drawbridge::base::fail(kind, "made up");
}

Inventory inventory(std::vector<Device> devices) {
    return Inventory::make(std::move(devices), {}, {}).value();
}

Device device(const std::string& uuid, std::vector<Fault> faults = {}) {
    return {.uuid = uuid, .memory_bytes = std::int64_t{80} << 30, .faults = std::move(faults)};
}

std::vector<std::string> reasons(const std::vector<Occurrence>& occurrences) {
    std::vector<std::string> all;
    for (const Occurrence& occurrence : occurrences)
        all.push_back(occurrence.reason);
    return all;
}

ClaimRecord record() {
    return {
        .claim = {"ns", "claim", "uid-1"},
        .state = ClaimState::started,
        .shares =
            {{.request = "a",
              .pool = "node",
              .device = "gpu-1",
              .uuid = "GPU-1",
              .share_id = "s1",
              .amounts = {.memory_bytes = std::int64_t{8000} << 20, .cores = 30, .slots = 1}},
             {.request = "b", .pool = "node", .device = "gpu-1", .uuid = "GPU-1", .admin = true},
             {.request = "c", .pool = "node", .device = "gpu-1", .uuid = "GPU-1", .admin = true}},
        .time = 1767268800};
}

}  // namespace

// ------------------------------------------------------------------------------------- outbox

TEST_CASE("notices take their turns in the order they came") {
    Outbox outbox;
    const Outbox::Time now{};
    outbox.put(notice("b"), now);
    outbox.put(notice("a"), now);
    CHECK(key_of(outbox, now) == "b");
    outbox.settle(*outbox.next(now), Delivery::done, now, wait);
    CHECK(key_of(outbox, now) == "a");
}

TEST_CASE(
    "a newer notice of the same key takes the place of one that waits, also during its turn") {
    Outbox outbox;
    const Outbox::Time now{};
    outbox.put(notice("a", "1"), now);
    const auto turn = outbox.next(now);
    outbox.put(notice("a", "2"), now);
    outbox.settle(*turn, Delivery::done, now, wait);
    REQUIRE(outbox.next(now));
    CHECK(outbox.next(now)->notice.body == "2");
    CHECK(outbox.waiting() == 1);
}

TEST_CASE("what was delivered is not sent again until it was forgotten") {
    Outbox outbox;
    const Outbox::Time now{};
    outbox.put(notice("a", "1"), now);
    outbox.settle(*outbox.next(now), Delivery::done, now, wait);
    outbox.put(notice("a", "1"), now);
    CHECK(outbox.waiting() == 0);
    outbox.forget("a");
    outbox.put(notice("a", "1"), now);
    CHECK(outbox.waiting() == 1);
}

TEST_CASE("what was dropped may be sent again") {
    Outbox outbox;
    const Outbox::Time now{};
    outbox.put(notice("a"), now);
    outbox.settle(*outbox.next(now), Delivery::dropped, now, wait);
    CHECK(outbox.waiting() == 0);
    outbox.put(notice("a"), now);
    CHECK(outbox.waiting() == 1);
}

TEST_CASE("a failed notice waits longer each time and holds up no other") {
    Outbox outbox;
    Outbox::Time now{};
    outbox.put(notice("a"), now);
    outbox.settle(*outbox.next(now), Delivery::again, now, wait);
    outbox.put(notice("b"), now);
    CHECK(key_of(outbox, now) == "b");
    outbox.settle(*outbox.next(now), Delivery::done, now, wait);
    CHECK(outbox.due() == now + 1s);
    now += 1s;
    REQUIRE(key_of(outbox, now) == "a");
    CHECK(outbox.next(now)->failures == 1);
    outbox.settle(*outbox.next(now), Delivery::again, now, wait);
    CHECK(outbox.due() == now + 2s);
}

TEST_CASE("what is held waits for quiet, up to its latest time, and holds up no other kind") {
    Outbox outbox;
    const Outbox::Time now{};
    Notice status = notice("status");
    status.kind = NoticeKind::claim_status;
    outbox.put(status, now + 1s, now + 5s);
    outbox.put(notice("event"), now);
    CHECK(key_of(outbox, now) == "event");
    outbox.settle(*outbox.next(now), Delivery::done, now, wait);
    for (const auto held : {1s, 2s, 4s, 5s, 6s}) {
        outbox.hold(NoticeKind::claim_status, now + held);
        outbox.hold(NoticeKind::event, now + 9s);
        CHECK(outbox.due() == now + std::min(held, 5s));
    }
    CHECK(key_of(outbox, now + 5s - 1ms).empty());
    CHECK(key_of(outbox, now + 5s) == "status");
}

TEST_CASE("a hold brings no failed notice forward and puts off none without a later time") {
    Outbox outbox;
    const Outbox::Time now{};
    outbox.put(notice("a"), now);
    outbox.hold(NoticeKind::event, now + 3s);
    REQUIRE(key_of(outbox, now) == "a");
    outbox.settle(*outbox.next(now), Delivery::again, now, [](int) { return 60s; });
    outbox.hold(NoticeKind::event, now + 3s);
    CHECK(outbox.due() == now + 60s);
}

TEST_CASE("a forgotten notice that is under way does not come back") {
    Outbox outbox;
    const Outbox::Time now{};
    outbox.put(notice("a"), now);
    const auto turn = outbox.next(now);
    outbox.forget("a");
    outbox.settle(*turn, Delivery::again, now, wait);
    CHECK(outbox.waiting() == 0);
    CHECK_FALSE(outbox.due());
}

TEST_CASE("a full outbox loses its oldest") {
    Outbox outbox;
    const Outbox::Time now{};
    for (std::size_t i = 0; i <= Outbox::most_waiting; ++i)
        outbox.put(notice("k" + std::to_string(i)), now);
    CHECK(outbox.waiting() == Outbox::most_waiting);
    CHECK(outbox.overflown() == 1);
    CHECK(key_of(outbox, now) == "k1");
}

TEST_CASE("memory of what was delivered is bounded") {
    Outbox outbox;
    const Outbox::Time now{};
    for (std::size_t i = 0; i <= Outbox::most_delivered; ++i) {
        outbox.put(notice("k" + std::to_string(i)), now);
        outbox.settle(*outbox.next(now), Delivery::done, now, wait);
    }
    outbox.put(notice("k1"), now);
    CHECK(outbox.waiting() == 0);
    outbox.put(notice("k0"), now);
    CHECK(outbox.waiting() == 1);
}

// ------------------------------------------------------------------------------------- events

TEST_CASE("an event has what the API asks for, within its bounds") {
    EventBook book(std::string(200, 'n'));
    Occurrence long_one = refused(std::string(253, 'p'), std::string(2000, 'x') + "ä");
    const auto made = book.tell(long_one, EventBook::Wall(1767268800123456us));
    REQUIRE(made);
    const json body = json::parse(made->body);
    CHECK(made->method == "POST");
    CHECK(made->target == "/apis/events.k8s.io/v1/namespaces/ns/events");
    CHECK(body["eventTime"] == "2026-01-01T12:00:00.123456Z");
    CHECK(body["note"].get<std::string>().size() == 1024);
    CHECK(body["reportingInstance"].get<std::string>().size() == 128);
    CHECK(body["metadata"]["name"].get<std::string>().size() <= 253);
}

TEST_CASE("what happens again is told as a series, ever more seldom") {
    EventBook book("node");
    EventBook::Wall now(1767268800s);
    const auto first = book.tell(refused("a", "x"), now);
    REQUIRE(first);
    std::vector<json> told;
    for (int second = 1; second < 29 * 60; ++second) {
        if (const auto more = book.tell(refused("a", "x"), now + std::chrono::seconds(second))) {
            CHECK(more->method == "PATCH");
            CHECK(more->content_type == "application/merge-patch+json");
            CHECK(more->target.ends_with(
                json::parse(first->body)["metadata"]["name"].get<std::string>()));
            told.push_back(json::parse(more->body)["series"]);
        }
    }
    REQUIRE(told.size() == 5);  // after 1, 3, 7 and 15 minutes, then every 10
    CHECK(told[0]["count"] == 61);
    CHECK(told[0]["lastObservedTime"] == "2026-01-01T12:01:00.000000Z");
    CHECK(told[3]["count"] == 901);
    // An event does not live forever: the next one is new.
    const auto later = book.tell(refused("a", "x"), now + 30min);
    REQUIRE(later);
    CHECK(later->method == "POST");
    CHECK(later->key != first->key);
}

TEST_CASE("one object has a bounded number of events, and others have theirs") {
    EventBook book("node");
    const EventBook::Wall now(1767268800s);
    std::size_t told = 0;
    for (int i = 0; i < 100; ++i)
        told += book.tell(refused("a", std::to_string(i)), now) ? 1 : 0;
    CHECK(told == EventBook::most_of_object);
    CHECK(book.tell(refused("b", "x"), now));
}

TEST_CASE("a clock that is set back does not silence events") {
    EventBook book("node");
    CHECK(book.tell(refused("a", "x"), EventBook::Wall(1767268800s)));
    CHECK(book.tell(refused("a", "x"), EventBook::Wall(1767200000s)));
}

TEST_CASE("faults that came and went between two looks are told, each once") {
    const Fault xid{.key = "xid", .value = "62", .message = "XID 62"};
    const Fault other{.key = "xid", .value = "48", .message = "XID 48"};
    const Fault lost{.key = std::string(lost_key), .effect = TaintEffect::no_execute};
    const Fault info{.key = "unmonitored", .effect = TaintEffect::none};
    const auto between = [](std::vector<Device> before, std::vector<Device> after) {
        return reasons(
            device_occurrences(inventory(std::move(before)), inventory(std::move(after)), "node"));
    };
    using Reasons = std::vector<std::string>;
    CHECK(between({}, {device("a", {xid})}) == Reasons{"GpuError"});
    CHECK(between({device("a")}, {device("a", {lost, xid})}) == Reasons{"GpuLost", "GpuError"});
    CHECK(between({device("a", {xid})}, {device("a", {xid})}).empty());
    CHECK(between({device("a", {xid})}, {device("a", {other})}) == Reasons{"GpuError"});
    CHECK(between({device("a", {lost})}, {device("a", {xid})}) ==
          Reasons{"GpuError", "GpuRecovered"});
    CHECK(between({device("a", {xid})}, {device("a")}) == Reasons{"GpuRecovered"});
    CHECK(between({device("a")}, {device("a", {info})}).empty());
    CHECK(between({device("a", {info})}, {device("a")}).empty());
    CHECK(between({device("a", {xid})}, {}).empty());
}

TEST_CASE("a refusal is told to each pod that waits, but not when the caller has gone") {
    const ClaimName claim{"ns", "claim", "uid"};
    const std::vector<Consumer> pods(20, Consumer{"pod", "u"});
    CHECK(refusal_occurrences(claim, pods, {ErrorKind::conflict, "no", {}}).size() == 16);
    CHECK(refusal_occurrences(claim, pods, {ErrorKind::timed_out, "no", {}}).empty());
    CHECK(refusal_occurrences(claim, {}, {ErrorKind::conflict, "no", {}}).empty());
}

TEST_CASE("what the answer to an event means") {
    CHECK(event_delivery(parse_json("{}")) == Delivery::done);
    CHECK(event_delivery(failure(ErrorKind::conflict)) == Delivery::done);
    for (const ErrorKind kind :
         {ErrorKind::not_found, ErrorKind::forbidden, ErrorKind::invalid_input})
        CHECK(event_delivery(failure(kind)) == Delivery::dropped);
    CHECK(event_delivery(failure(ErrorKind::unavailable)) == Delivery::again);
}

// ------------------------------------------------------------------------------- claim status

TEST_CASE("the status of a claim has one entry for each share") {
    const Notice made = status_notice(record());
    const json body = json::parse(made.body);
    CHECK(made.method == "PATCH");
    CHECK(made.target ==
          "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/claim/status"
          "?fieldManager=gpu.drawbridge.dev&force=true");
    CHECK(body["metadata"] == json{{"namespace", "ns"}, {"name", "claim"}, {"uid", "uid-1"}});
    REQUIRE(body["status"]["devices"].size() == 2);  // that of admin access once
    const json first = body["status"]["devices"][0];
    CHECK(first["shareID"] == "s1");
    CHECK(first["data"] ==
          json{{"uuid", "GPU-1"},
               {"limits", {{"memory", "8000Mi"}, {"cores", "30"}, {"slots", "1"}}}});
    CHECK(first["conditions"][0]["lastTransitionTime"] == "2026-01-01T12:00:00Z");
    const json second = body["status"]["devices"][1];
    CHECK_FALSE(second.contains("shareID"));
    CHECK(second["data"] == json{{"uuid", "GPU-1"}});
    CHECK(status_notice(record()) == made);
}

TEST_CASE("what the answer to a status means") {
    const auto end = [](const char* text) { return status_end(parse_json(text), 0); };
    CHECK(end(R"({"status":{"allocation":{},"devices":[{"driver":"gpu.drawbridge.dev"}]}})") ==
          StatusEnd::kept);
    CHECK(end(R"({"status":{"allocation":{},"devices":[{"driver":"other"}]}})") ==
          StatusEnd::dropped);
    CHECK(end(R"({"status":{"allocation":{}}})") == StatusEnd::dropped);
    CHECK(end(R"({"status":{}})") == StatusEnd::gone);
    CHECK(status_end(failure(ErrorKind::not_found), 0) == StatusEnd::gone);
    CHECK(status_end(failure(ErrorKind::invalid_input), 0) == StatusEnd::gone);
    CHECK(status_end(failure(ErrorKind::conflict), 0) == StatusEnd::failed);
    CHECK(status_end(failure(ErrorKind::conflict), 4) == StatusEnd::gone);
    CHECK(status_end(failure(ErrorKind::forbidden), 100) == StatusEnd::failed);
    CHECK(status_end(failure(ErrorKind::unavailable), 100) == StatusEnd::failed);
}

TEST_CASE("foreign text is cut between characters and has no broken ones") {
    CHECK(bounded_text("aä", 2) == "a");
    CHECK(bounded_text("aä", 3) == "aä");
    CHECK(bounded_text("a\xff"
                       "b",
                       9) == "a?b");
    CHECK(api_time(0) == "1970-01-01T00:00:00Z");
    CHECK(api_micro_time(std::chrono::system_clock::time_point(-1us)) ==
          "1969-12-31T23:59:59.999999Z");
}
