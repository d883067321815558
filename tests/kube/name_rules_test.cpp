#include "kube/name_rules.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge::kube;

TEST_CASE("names are judged as Kubernetes does") {
    struct Row {
        std::string text;
        bool label;
        bool subdomain;
        bool qualified;
    };
    const std::string l63(63, 'a');
    const std::string l64(64, 'a');
    const std::string d253 = l63 + "." + l63 + "." + l63 + "." + std::string(61, 'a');
    const Row rows[] = {
        {"", false, false, false},
        {"a", true, true, true},
        {"0", true, true, true},
        {"vgpu-0", true, true, true},
        {"a--b", true, true, true},
        {"-a", false, false, false},
        {"a-", false, false, false},
        {"A", false, false, true},
        {"a_b", false, false, true},
        {"_a", false, false, false},
        {"a.b", false, true, true},
        {"a..b", false, false, true},
        {".a", false, false, false},
        {"a.", false, false, false},
        {"a.-b", false, false, true},
        {"a b", false, false, false},
        {"ä", false, false, false},
        {std::string("a\0b", 3), false, false, false},
        {"a\n", false, false, false},
        {"nvidia.com/gpu", false, false, true},
        {"nvidia.com/mig-3g.20gb", false, false, true},
        {"Nvidia.com/gpu", false, false, false},
        {"/gpu", false, false, false},
        {"nvidia.com/", false, false, false},
        {"a/b/c", false, false, false},
        {"a-/b", false, false, false},
        {l63, true, true, true},
        {l64, false, true, false},
        {d253, false, true, false},
        {d253 + "a", false, false, false},
        {d253 + "/" + l63, false, false, true},
        {d253 + "/" + l64, false, false, false},
        {d253 + "a/" + l63, false, false, false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.text);
        CHECK(is_dns_label(row.text) == row.label);
        CHECK(is_dns_subdomain(row.text) == row.subdomain);
        CHECK(is_qualified_name(row.text) == row.qualified);
    }
}
