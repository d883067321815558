// Vectors 133 to 137, updates, and what a cluster can do (design.md decisions 5, 6, 11).

#include "tests/translate/vector_support.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace drawbridge::oracle {
namespace {

using nlohmann::json;
using translate::Verdict;

/// A translated pod as the old object, the same manifest applied again as the new one.
translate::Translation reapply(const std::string& original, const std::string& applied_again,
                               const Site& site) {
    const auto first = translate_text(original, site.settings, site.cluster);
    const auto stored =
        base::parse_json(json::parse(original).patch(json::parse(first.patch.to_json())).dump())
            .value();
    auto merged = json::parse(stored.root().to_json());
    merged.merge_patch(json::parse(applied_again));
    for (std::size_t i = 0; i < merged["spec"]["containers"].size();
         ++i) {  // as kubectl: the claims stay
        const auto now = json::parse(stored.root().to_json())["spec"]["containers"][i].value(
            "resources", json::object());
        if (now.contains("claims"))
            merged["spec"]["containers"][i]["resources"]["claims"] = now["claims"];
    }
    const auto updated = base::parse_json(merged.dump()).value();
    translate::PodReview review;
    review.pod = updated.root();
    review.old_pod = stored.root();
    review.operation = translate::Operation::update;
    auto translation = translate::translate_pod(review, site.settings, site.cluster);
    if (translation.verdict == Verdict::translate) {
        const auto result = merged.patch(json::parse(translation.patch.to_json()));
        auto expected = json::parse(stored.root().to_json());
        CHECK(result["spec"] == expected["spec"]);
    }
    return translation;
}

TEST_CASE(
    "vector 133: a manifest applied again is stripped again, other figures are left to the API "
    "server") {
    const auto site = site_for("drawbridge", 36);
    const auto manifest = [](const char* memory) {
        return std::string(
                   R"({"metadata":{"name":"p","annotations":{"a":"b"}},"spec":{"schedulerName":"hami-scheduler",
            "containers":[{"name":"a","image":"i","resources":{"limits":{"nvidia.com/gpumem":")") +
               memory + R"("},"requests":{"nvidia.com/gpumem":")" + memory + R"("}}}]}})";
    };
    const auto again = reapply(manifest("3k"), manifest("3k"), site);
    CHECK(again.verdict == Verdict::translate);
    CHECK(again.templates.empty());
    CHECK(reapply(manifest("3k"), manifest("3000"), site).verdict == Verdict::translate);
    const auto other = reapply(manifest("3k"), manifest("4k"), site);
    CHECK(other.verdict == Verdict::leave);
    CHECK(has_code(other, "update-changes-request"));
    CHECK(reapply(manifest("3k"), "{}", site).verdict == Verdict::leave);
}

TEST_CASE("an update of a pod that was never translated is left") {
    const auto site = site_for("drawbridge", 36);
    const auto pod =
        base::parse_json(
            to_json(GeneratedPod{pod_of({container("a", Sort::main, "gpu:1")}), false, 1}, 1))
            .value();
    translate::PodReview review{pod.root(), pod.root(), translate::Operation::update, {}};
    CHECK(translate::translate_pod(review, site.settings, site.cluster).verdict == Verdict::leave);
}

TEST_CASE(
    "a new pod that already has our entry: figures are stripped, or refused without a reason") {
    const auto site = site_for("drawbridge", 36);
    const auto input = [&](const char* text) { return pod_of({container("a", Sort::main, text)}); };
    const auto first = try_pod(input("mem:3000"), site);
    auto copy = first.read.after;  // for example by another webhook that put the figures back
    const auto refigure = [&](const char* memory) {
        copy["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpumem"] = memory;
        return translate_text(copy.dump(), site.settings, site.cluster);
    };
    const auto same = refigure("3k");
    CHECK(same.verdict == Verdict::translate);
    CHECK(copy.patch(json::parse(same.patch.to_json()))["spec"] == first.read.after["spec"]);
    const auto other = refigure("4k");  // as a LimitRange does
    CHECK(other.verdict == Verdict::translate);
    CHECK(has_code(other, "claim-kept"));
    CHECK(copy.patch(json::parse(other.patch.to_json()))["spec"] == first.read.after["spec"]);
    copy["metadata"].erase("annotations");
    const auto unexplained = refigure("4k");
    CHECK(unexplained.verdict == Verdict::deny);
    CHECK(has_code(unexplained, "claim-entry-differs"));

    const auto bare = translate_text(first.read.after.dump(), site.settings, site.cluster);
    CHECK(bare.verdict == Verdict::leave);
    CHECK(bare.patch.empty());
    CHECK(bare.referenced_templates == std::vector{first.translation.templates[0].name});
    REQUIRE(bare.restorable.size() == 1);
    CHECK(bare.restorable[0].name == first.translation.templates[0].name);
    CHECK(kube::same_content(bare.restorable[0].spec, first.translation.templates[0].spec));

    auto lost = first.read.after;
    lost["metadata"]["annotations"].erase("drawbridge.dev/original");
    const auto unrestorable = translate_text(lost.dump(), site.settings, site.cluster);
    CHECK(unrestorable.referenced_templates.size() == 1);
    CHECK(unrestorable.restorable.empty());
}

TEST_CASE(
    "vectors 134 to 136: the same answer each time, nothing for others' pods, unknown fields "
    "kept") {
    const auto site = site_for("drawbridge", 36);
    const auto pod = to_json(generate_pod(7), 1);
    const auto one = translate_text(pod, site.settings, site.cluster);
    const auto two = translate_text(pod, site.settings, site.cluster);
    CHECK(one.patch.to_json() == two.patch.to_json());  // 134
    CHECK(try_pod(pod_of({container("a", Sort::main, "")})).translation.verdict ==
          Verdict::leave);  // 135
    const std::string future =
        R"({"spec":{"newField":{"x":[1]},"containers":[{"name":"a","more":12345678901234567890123,
        "resources":{"limits":{"nvidia.com/gpu":"1"}}}]}})";
    const auto read = read_translation(future, translate_text(future, site.settings, site.cluster),
                                       site.settings);
    CHECK(read.after["spec"]["newField"] == read.before["spec"]["newField"]);  // 136
    CHECK(read.after["spec"]["containers"][0]["more"] ==
          read.before["spec"]["containers"][0]["more"]);
}

TEST_CASE("vector 137: MIG names of NVIDIA's plugin are not ours") {
    const auto tried =
        try_pod(pod_of({{"a", Sort::main, false, {{"nvidia.com/mig-3g.20gb", "1"}}, {}}}));
    CHECK(tried.translation.verdict == Verdict::leave);
}

TEST_CASE("servers below 1.35, or without the gate, never get a translation") {
    for (const bool old : {true, false}) {
        auto site = site_for("drawbridge", old ? 34 : 36);
        if (!old) site.cluster.features = translate::Features::gate_off;
        const auto input = pod_of({container("a", Sort::main, "mem:3000")});
        auto tried = try_pod(input, site);
        CHECK(tried.translation.verdict == Verdict::deny);
        CHECK(has_code(tried.translation, old ? "server-too-old" : "gate-off"));
        site.settings.policy.old_server = translate::OldServer::passthrough;
        tried = try_pod(input, site);
        CHECK(tried.translation.verdict == Verdict::leave);
    }
}

TEST_CASE(
    "a plain count is left to the cluster where the settings say so, and only a plain count") {
    auto site = site_for("drawbridge", 36);
    site.settings.policy.plain_count = translate::PlainCount::leave;
    const auto plain = ask(pod_of({container("a", Sort::main, "gpu:2")}), site).translation;
    CHECK(plain.verdict == Verdict::leave);
    CHECK(has_code(plain, "plain-count-left"));
    CHECK(ask(pod_of({container("a", Sort::main, "gpu:2 mem:100")}), site).translation.verdict ==
          Verdict::translate);
}

TEST_CASE("percentages need the memory sizes: unknown, too many, not listed yet, too small") {
    const auto input = pod_of({container("a", Sort::main, "pct:1")});
    auto site = site_for("drawbridge", 36);
    const auto code_with = [&](std::vector<std::int64_t> sizes, const char* code) {
        site.cluster.memory_sizes = std::move(sizes);
        const auto translation = ask(input, site).translation;
        CHECK(translation.verdict == Verdict::deny);
        CHECK(has_code(translation, code));
    };
    code_with({}, "memory-sizes-unknown");
    code_with({1LL << 30U, 2LL << 30U, 3LL << 30U, 4LL << 30U, 5LL << 30U, 6LL << 30U, 7LL << 30U,
               8LL << 30U, 9LL << 30U},
              "memory-sizes-too-many");
    code_with({50LL << 20U}, "share-too-small");
    site.cluster.memory_sizes.clear();
    site.cluster.sizes_state = translate::SizesState::not_listed;
    CHECK(ask(input, site).translation.sizes_needed);
    site.settings.memory_sizes = {16LL << 30U};
    const auto translation = ask(input, site).translation;
    CHECK_FALSE(translation.sizes_needed);
    CHECK(translation.verdict == Verdict::translate);
    for (const auto* no_sizes : {"pct:0", "pct:100", "pct:50 mem:3000", "gpu:0 pct:50"}) {
        CAPTURE(no_sizes);
        const Site bare{"bare", translate::profile_settings("drawbridge").value(), {}};
        CHECK(ask(pod_of({container("a", Sort::main, no_sizes)}), bare).translation.verdict ==
              Verdict::translate);
    }
}

}  // namespace
}  // namespace drawbridge::oracle
