#include "server/admission_review.hpp"

#include "base/hash.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <string>

using namespace drawbridge;
using namespace drawbridge::server;
using nlohmann::json;
using translate::Code;
using translate::Severity;

namespace {

json review() {
    return {{"apiVersion", "admission.k8s.io/v1"},
            {"kind", "AdmissionReview"},
            {"request",
             {{"uid", "u-1"},
              {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
              {"operation", "CREATE"},
              {"namespace", "team"},
              {"object", {{"spec", json::object()}}}}}};
}

translate::Diagnostic diagnostic(Severity severity, std::string message, std::string fix = {},
                                 Code code = Code::memory_unit) {
    return {.severity = severity,
            .code = code,
            .path = "/spec",
            .container = {},
            .resource = {},
            .value = {},
            .message = std::move(message),
            .fix = std::move(fix)};
}

std::string place_of_fault(const json& body) {
    const auto decoded = decode_review(body.dump());
    REQUIRE_FALSE(decoded.has_value());
    CHECK(decoded.error().kind == base::ErrorKind::invalid_input);
    return decoded.error().path;
}

}  // namespace

TEST_CASE("a review is read with what it leaves out") {
    const auto decoded = decode_review(review().dump());
    REQUIRE(decoded.has_value());
    CHECK(decoded->uid == "u-1");
    CHECK(decoded->name.empty());
    CHECK(decoded->name_space == "team");
    CHECK_FALSE(decoded->dry_run);
    CHECK(decoded->concerns_pod);
    CHECK(decoded->pod.is_object());
    CHECK(decoded->old_pod.is_missing());
}

TEST_CASE("null counts as left out") {
    json body = review();
    body["request"]["name"] = nullptr;
    body["request"]["dryRun"] = nullptr;
    body["request"]["subResource"] = nullptr;
    body["request"]["oldObject"] = nullptr;
    const auto decoded = decode_review(body.dump());
    REQUIRE(decoded.has_value());
    CHECK(decoded->concerns_pod);
    CHECK_FALSE(decoded->dry_run);
}

TEST_CASE("a fault in the envelope is named by its place") {
    const struct {
        const char* pointer;
        json value;
        const char* place;
    } rows[] = {
        {"/apiVersion", "admission.k8s.io/v1beta1", "/apiVersion"},
        {"/apiVersion", 1, "/apiVersion"},
        {"/kind", "Review", "/kind"},
        {"/request", json::array(), "/request"},
        {"/request/uid", "", "/request/uid"},
        {"/request/uid", 3, "/request/uid"},
        {"/request/name", 3, "/request/name"},
        {"/request/namespace", json::object(), "/request/namespace"},
        {"/request/operation", 1, "/request/operation"},
        {"/request/dryRun", "true", "/request/dryRun"},
        {"/request/object", nullptr, "/request/object"},
        {"/request/object", "pod", "/request/object"},
        {"/request/operation", "UPDATE", "/request/oldObject"},
    };
    for (const auto& row : rows) {
        json body = review();
        body[json::json_pointer(row.pointer)] = row.value;
        CAPTURE(row.pointer);
        CHECK(place_of_fault(body) == row.place);
    }
}

TEST_CASE("what is no pod to create or update is none of our business, whatever it holds") {
    const struct {
        const char* pointer;
        json value;
    } rows[] = {
        {"/request/resource/resource", "configmaps"},
        {"/request/resource/version", "v2"},
        {"/request/resource/group", "apps"},
        {"/request/subResource", "ephemeralcontainers"},
        {"/request/operation", "DELETE"},
        {"/request/operation", ""},
    };
    for (const auto& row : rows) {
        json body = review();
        body["request"]["object"] = nullptr;
        body[json::json_pointer(row.pointer)] = row.value;
        const auto decoded = decode_review(body.dump());
        CAPTURE(row.pointer);
        REQUIRE(decoded.has_value());
        CHECK_FALSE(decoded->concerns_pod);
    }
}

TEST_CASE("an untouched object gets neither patch nor type") {
    CHECK(json::parse(encode_untouched("a\"b\u0001")) ==
          json{{"apiVersion", "admission.k8s.io/v1"},
               {"kind", "AdmissionReview"},
               {"response", {{"uid", "a\"b\u0001"}, {"allowed", true}}}});
    translate::Translation leave;
    leave.diagnostics = {diagnostic(Severity::note, "for the log alone")};
    CHECK(encode_answer("u", leave) == encode_untouched("u"));
}

TEST_CASE("a patch is sent in base 64 with its type") {
    translate::Translation translation;
    translation.verdict = translate::Verdict::translate;
    translation.patch.remove(kube::PointerPath() / "spec" / "a");
    translation.diagnostics = {diagnostic(Severity::warning, "careful", "look twice")};
    const json response = json::parse(encode_answer("u", translation))["response"];
    CHECK(response["patchType"] == "JSONPatch");
    const auto patch = base::base64_decode(response["patch"].get<std::string>());
    REQUIRE(patch.has_value());
    CHECK(json::parse(*patch) == json::array({{{"op", "remove"}, {"path", "/spec/a"}}}));
    CHECK(response["warnings"] == json::array({"careful; look twice [memory-unit]"}));
}

TEST_CASE("a denial carries the code of its worst problem and no patch") {
    const struct {
        Code code;
        int status;
        const char* reason;
    } rows[] = {{Code::memory_unit, 422, "Invalid"},
                {Code::privileged_container, 403, "Forbidden"}};
    for (const auto& row : rows) {
        translate::Translation translation;
        translation.verdict = translate::Verdict::deny;
        translation.patch.remove(kube::PointerPath() / "spec");
        translation.diagnostics = {diagnostic(Severity::denied, "one", "Fix it.", row.code),
                                   diagnostic(Severity::denied, "two"),
                                   diagnostic(Severity::warning, "three"),
                                   diagnostic(Severity::note, "four")};
        const json response = json::parse(encode_answer("u", translation))["response"];
        CHECK(response["allowed"] == false);
        CHECK_FALSE(response.contains("patch"));
        CHECK_FALSE(response.contains("patchType"));
        CHECK(response["status"]["code"] == row.status);
        CHECK(response["status"]["reason"] == row.reason);
        CHECK(response["status"]["message"] ==
              fmt::format("one. Fix it. [{}]\ntwo [memory-unit]", translate::name(row.code)));
        CHECK(response["warnings"] == json::array({"three [memory-unit]"}));
    }
}

TEST_CASE("control characters of foreign text are written out") {
    CHECK(one_line(diagnostic(Severity::warning, "a\nb\r\tc\x01\x7f\xc3\xa9")) ==
          "a\\nb\\r\\tc\\u0001\\u007f\xc3\xa9");
}

TEST_CASE("a warning is cut between characters") {
    for (std::size_t before = 240; before < 260; ++before) {
        std::string message(before, 'x');
        for (int i = 0; i < 20; ++i)
            message += "\xf0\x9f\x98\x80";
        const auto lines = warning_lines({diagnostic(Severity::warning, message)});
        REQUIRE(lines.size() == 1);
        CHECK(lines[0].size() <= warning_limit);
        CHECK(lines[0].size() > warning_limit - 4);
        CHECK(lines[0].ends_with("... [memory-unit]"));
        CHECK_NOTHROW(json(lines[0]).dump());  // throws on broken UTF-8
    }
}

TEST_CASE("what does not fit is counted") {
    translate::Diagnostics many;
    for (int i = 0; i < 1000; ++i) {
        many.push_back(diagnostic(Severity::warning, fmt::format("{:0100}", i)));
        many.push_back(diagnostic(Severity::denied, fmt::format("{:0100}", i)));
    }
    const auto lines = warning_lines(many);
    std::size_t bytes = 0;
    for (const auto& line : lines)
        bytes += line.size();
    CHECK(bytes <= warnings_limit);
    CHECK(bytes > warnings_limit - 300);
    CHECK(lines.back() == fmt::format("+{} more", 1000 - (lines.size() - 1)));
    const std::string message = denial_message(many);
    CHECK(message.size() <= denial_limit);
    CHECK(message.size() > denial_limit - 300);
    CHECK(message.ends_with(" more"));
}

TEST_CASE("one problem without end fills the message and no more") {
    const auto message = denial_message({diagnostic(Severity::denied, std::string(100000, 'x')),
                                         diagnostic(Severity::denied, "second")});
    CHECK(message.size() <= denial_limit);
    CHECK(message.starts_with("xxx"));
    CHECK(message.ends_with("... [memory-unit]\n+1 more"));
}
