#include "cli/notices.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge;
using cli::NoticeForm;
using cli::Notices;

namespace {

const cli::Origin origin{"pods.yaml", 2, 7};
const cli::Identity identity{"Pod", "team", "train", ""};

translate::Diagnostic diagnostic() {
    translate::Diagnostic one;
    one.severity = translate::Severity::denied;
    one.code = translate::Code::memory_unit;
    one.path = "/spec/containers/0";
    one.container = "main";
    one.message = "the unit is \x1b[2J MiB";
    one.fix = "write 8192";
    return one;
}

std::string failure(NoticeForm form, const std::string& path) {
    Notices notices(form, false);
    notices.failure({base::ErrorKind::invalid_input, "bad", path});
    return notices.text();
}

}  // namespace

TEST_CASE("a notice as JSON is one line with all that is known") {
    Notices notices(NoticeForm::json, true);
    notices.diagnostic(origin, identity, diagnostic());
    notices.verdict(origin, identity, translate::Verdict::deny);
    CHECK(notices.text() ==
          R"({"severity":"denied","code":"memory-unit","file":"pods.yaml","document":2,"item":7,)"
          R"("kind":"Pod","namespace":"team","name":"train","container":"main",)"
          R"("path":"/spec/containers/0","message":"the unit is \u001b[2J MiB","fix":"write 8192"})"
          "\n"
          R"({"verdict":"deny","file":"pods.yaml","document":2,"item":7,"kind":"Pod",)"
          R"("namespace":"team","name":"train"})"
          "\n");
}

TEST_CASE("a notice as text is for people, and no control character of theirs gets through") {
    Notices plain(NoticeForm::text, false);
    plain.diagnostic(origin, identity, diagnostic());
    CHECK(plain.text() ==
          "denied: the unit is \\x1b[2J MiB [memory-unit]\n"
          "    at pods.yaml, document 2, item 7, Pod train, /spec/containers/0\n"
          "    fix: write 8192\n");
    Notices coloured(NoticeForm::text, true);
    coloured.diagnostic(origin, identity, diagnostic());
    CHECK(coloured.text().starts_with("\033[31mdenied\033[0m: "));
}

TEST_CASE("a failure names file, line and column") {
    CHECK(failure(NoticeForm::text, "a.yaml:3:7") == "drawbridge: a.yaml:3:7: bad\n");
    CHECK(failure(NoticeForm::text, "") == "drawbridge: bad\n");
    CHECK(failure(NoticeForm::json, "a:1.yaml:3:7") ==
          R"({"severity":"error","file":"a:1.yaml","line":3,"column":7,"message":"bad"})"
          "\n");
    CHECK(failure(NoticeForm::json, "a.yaml") ==
          R"({"severity":"error","file":"a.yaml","message":"bad"})"
          "\n");
    CHECK(failure(NoticeForm::json, "dir:3") ==
          R"({"severity":"error","file":"dir:3","message":"bad"})"
          "\n");
}
