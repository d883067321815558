// What a person says of a cluster.

#include "translate/cluster_facts.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace drawbridge;

TEST_CASE("a Kubernetes version is read in every usual spelling") {
    for (const char* text : {"1.36", "v1.36", "1.36.3", "v1.36.3", "1.36+", "v1.36.0-alpha.1"}) {
        CHECK_MESSAGE(translate::parse_kubernetes_version(text).value_or(0) == 36, text);
    }
    for (const char* text : {"", "1", "1.", "36", "2.1", "1.x", "1.36x", "1.-3", "1.99999999999"}) {
        CHECK_MESSAGE(!translate::parse_kubernetes_version(text).has_value(), text);
    }
}

TEST_CASE("memory sizes come sorted, each once, and must be whole MiB") {
    constexpr std::int64_t gib = 1 << 30;
    const auto sizes = translate::parse_memory_sizes("80Gi,24Gi,80Gi");
    REQUIRE(sizes.has_value());
    CHECK(*sizes == std::vector<std::int64_t>{24 * gib, 80 * gib});
    for (const char* text : {"", ",", "24Gi,", "24", "0", "-1Gi", "1.5Ki", "x", "24GB"}) {
        CHECK_MESSAGE(!translate::parse_memory_sizes(text).has_value(), text);
    }
}

TEST_CASE("a fleet file without a slice of the driver is refused by name") {
    const auto sizes = translate::read_fleet(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceSlice\nspec: {driver: other.example}\n", {});
    REQUIRE(!sizes.has_value());
    CHECK(sizes.error().kind == base::ErrorKind::not_found);
    CHECK(sizes.error().message.find("gpu.drawbridge.dev") != std::string::npos);
}
