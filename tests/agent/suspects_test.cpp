#include "agent/share/suspects.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge::agent;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr std::int64_t mib = 1 << 20;

ClaimRecord record_of(std::vector<std::string> pods) {
    return {.claim = {.name_space = "team", .name = "train-0", .uid = "u-1"},
            .pods = std::move(pods)};
}

const Share share{.uuid = "GPU-1", .amounts = {8 * gib, 0, 1}};

}  // namespace

TEST_CASE("a little more than the limits together is none, and no limit is never passed") {
    Holding holding{.limits = {{"a", 8 * gib}, {"b", 2 * gib}}};
    holding.bytes = 10 * gib + 512 * mib + 256 * mib;
    CHECK_FALSE(holding.is_over());
    holding.bytes += 1;
    CHECK(holding.is_over());
    CHECK(holding.beyond() == 768 * mib + 1);
    holding.limits["c"] = -1;
    CHECK_FALSE(holding.is_over());
    CHECK(holding.beyond() == 0);
}

TEST_CASE("figures that no GPU has overflow nothing") {
    Holding holding{.limits = {{"a", INT64_MAX}, {"b", INT64_MAX}}};
    for (int i = 0; i < 1000; ++i)
        holding.add({"GPU-1", 1, UINT64_MAX});
    CHECK(holding.bytes > 0);
    CHECK(holding.is_over());
}

TEST_CASE("the process that holds most stands for all") {
    Holding holding;
    holding.add({"GPU-1", 7, 100});
    holding.add({"GPU-1", 8, 300});
    holding.add({"GPU-1", 9, 200});
    CHECK(holding.bytes == 600);
    CHECK(holding.pid == 8);
}

TEST_CASE("a container's pod is known by what the kubelet mounts into it") {
    const std::string other = "1 2 8:1 /srv/pods/x/data /data rw - ext4 x rw\n2 1 0:3 / /proc rw\n";
    CHECK(pod_in_mounts(other).empty());
    CHECK(pod_in_mounts(other + "3 1 8:1 /lib/kubelet/pods/p-1/etc-hosts /etc/hosts rw") == "p-1");
    CHECK(pod_in_mounts("3 1 8:1 /pods/p-2/containers/main/0a1b /dev/termination-log rw - x") ==
          "p-2");
    CHECK(pod_in_mounts("").empty());
    CHECK(pod_in_mounts("\n/pods/\n 1 2 3 /pods/ x\n/pods/a/etc-hosts").empty());
}

TEST_CASE("people are told on the pod, when it begins") {
    const Suspect past{.strangers = 2, .pod_uid = "p-1"};
    auto told = suspect_occurrences({}, past, record_of({"train-0"}), share);
    REQUIRE(told.size() == 1);
    CHECK(told[0].reason == "GpuLimitBypassed");
    CHECK(told[0].regarding.kind == "Pod");
    CHECK(told[0].regarding.name == "train-0");
    CHECK(told[0].regarding.uid == "p-1");
    REQUIRE(told[0].related);
    CHECK(told[0].related->name == "train-0");
    CHECK(told[0].note.find("8192 MiB") != std::string::npos);
    CHECK(suspect_occurrences(past, {.strangers = 3}, record_of({"train-0"}), share).empty());
    const Suspect both{.strangers = 2, .overrun_bytes = 1, .pod_uid = "p-1"};
    told = suspect_occurrences(past, both, record_of({"train-0"}), share);
    REQUIRE(told.size() == 1);
    CHECK(told[0].reason == "GpuLimitExceeded");
    CHECK(suspect_occurrences(both, {}, record_of({"train-0"}), share).empty());
}

TEST_CASE("only the pod with that UID is evicted, by whichever name it has") {
    const Suspect past{.strangers = 1, .pod_uid = "p-1"};
    const auto notices = eviction_notices(past, record_of({"a", "b"}));
    REQUIRE(notices.size() == 2);
    CHECK(notices[1].kind == NoticeKind::eviction);
    CHECK(notices[1].method == "POST");
    CHECK(notices[1].target == "/api/v1/namespaces/team/pods/b/eviction");
    CHECK(
        notices[1].body ==
        R"({"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"b","namespace":"team"},)"
        R"("deleteOptions":{"preconditions":{"uid":"p-1"}}})");
    CHECK(notices[0].key != notices[1].key);
    CHECK(eviction_notices({.strangers = 1}, record_of({"a"})).empty());
}

TEST_CASE("an eviction is tried again while a budget or the server is in its way") {
    using drawbridge::base::ErrorKind;
    for (const auto& [kind, delivery] : {std::pair{ErrorKind::conflict, Delivery::dropped},
                                         {ErrorKind::not_found, Delivery::dropped},
                                         {ErrorKind::forbidden, Delivery::dropped},
                                         {ErrorKind::unavailable, Delivery::again},
                                         {ErrorKind::timed_out, Delivery::again}}) {
        CHECK(eviction_delivery(drawbridge::base::fail(kind, "no")) == delivery);
    }
}

TEST_CASE("where the pod is not known they are told on the claim") {
    const Suspect nameless{.strangers = 1};
    const Suspect known{.strangers = 1, .pod_uid = "p-1"};
    for (const auto& [suspect, pods] : {std::pair{nameless, std::vector<std::string>{"a"}},
                                        std::pair{known, std::vector<std::string>{"a", "b"}},
                                        std::pair{known, std::vector<std::string>()}}) {
        const auto told = suspect_occurrences({}, suspect, record_of(pods), share);
        REQUIRE(told.size() == 1);
        CHECK(told[0].regarding.kind == "ResourceClaim");
        CHECK(told[0].regarding.uid == "u-1");
        CHECK_FALSE(told[0].related);
    }
}
