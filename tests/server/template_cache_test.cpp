#include "server/template_cache.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge;
using server::content_digest;
using server::TemplateCache;

namespace {

kube::ClaimSpec spec(std::string memory, std::int64_t count = 1) {
    kube::DeviceAlternative part{.device_class = "c", .count = count};
    part.capacity = {{"memory", std::move(memory)}};
    kube::ClaimSpec out;
    out.requests = {{.name = "gpu", .alternatives = {part}}};
    return out;
}

const auto digest = content_digest(spec("1Gi"));
const auto other = content_digest(spec("2Gi"));
const TemplateCache::Clock::time_point start{};

}  // namespace

TEST_CASE("one meaning has one digest, however an API server writes it") {
    CHECK(content_digest(spec("4096Mi")) == content_digest(spec("4Gi")));
    CHECK(content_digest(spec("100")) == content_digest(spec("1e2")));
    CHECK(content_digest(spec("4096Mi")) != content_digest(spec("4095Mi")));
    CHECK(content_digest(spec("1Gi", 2)) != content_digest(spec("1Gi", 1)));
    CHECK(content_digest(spec("much")) != content_digest(spec("more")));
}

TEST_CASE("what an answer said holds for a while, what the watch said until it is taken back") {
    TemplateCache cache;
    cache.learn("a", "x", digest, start);
    CHECK(cache.holds("a", "x", digest, start));
    CHECK(cache.knows("a", "x", start));
    CHECK_FALSE(cache.holds("a", "x", other, start));
    CHECK_FALSE(cache.holds("b", "x", digest, start));
    CHECK_FALSE(cache.holds("a", "x", digest, start + TemplateCache::unconfirmed_time));
    CHECK(cache.size() == 0);

    cache.confirm("a", "x", digest);
    CHECK(cache.holds("a", "x", digest, start + std::chrono::hours(1000)));
    cache.learn("a", "x", digest, start);  // a later answer does not make it uncertain
    CHECK(cache.holds("a", "x", digest, start + std::chrono::hours(1000)));
    cache.erase("a", "x");
    CHECK_FALSE(cache.knows("a", "x", start));
    cache.erase("a", "x");
}

TEST_CASE("an answer that differs from the watch is believed, for a while") {
    TemplateCache cache;
    cache.confirm("a", "x", digest);
    cache.learn("a", "x", other, start);
    CHECK(cache.holds("a", "x", other, start));
    CHECK_FALSE(cache.knows("a", "x", start + TemplateCache::unconfirmed_time));
}

TEST_CASE("namespace and name cannot run into each other") {
    TemplateCache cache;
    cache.confirm("a", "b-c", digest);
    CHECK_FALSE(cache.knows("a-b", "c", start));
}

TEST_CASE("a list drops what it does not name, but not what was just written") {
    TemplateCache cache;
    cache.list_begun();
    cache.confirm("a", "gone", digest);
    cache.confirm("a", "stays", digest);
    cache.list_complete();
    cache.list_begun();
    cache.confirm("a", "stays", digest);
    cache.learn("a", "written", digest, start);
    CHECK(cache.knows("a", "gone", start));  // a list that is not complete proves nothing
    cache.list_complete();
    CHECK_FALSE(cache.knows("a", "gone", start));
    CHECK(cache.knows("a", "stays", start));
    CHECK(cache.knows("a", "written", start));
}

TEST_CASE("a list that begins again counts from there") {
    TemplateCache cache;
    cache.list_begun();
    cache.confirm("a", "first-try", digest);
    cache.list_begun();
    cache.confirm("a", "second-try", digest);
    cache.list_complete();
    CHECK_FALSE(cache.knows("a", "first-try", start));
    CHECK(cache.knows("a", "second-try", start));
}

TEST_CASE("the cache is bounded, and what was used last stays") {
    TemplateCache cache(3);
    for (const char* const name : {"1", "2", "3"})
        cache.confirm("a", name, digest);
    CHECK(cache.knows("a", "1", start));
    cache.confirm("a", "4", digest);
    CHECK(cache.size() == 3);
    CHECK_FALSE(cache.knows("a", "2", start));
    CHECK(cache.knows("a", "1", start));
}
