#include "server/operator_routes.hpp"

#include "base/log.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge;
using namespace drawbridge::server;

namespace {

OperatorParts parts() {
    OperatorParts made;
    made.not_ready = [] { return std::vector<std::string>{}; };
    made.remarks = [] { return std::vector<std::string>{}; };
    made.metrics = [] { return std::string("metrics"); };
    made.inflight = [] { return std::string("{}"); };
    made.settings = [] { return std::string(); };
    made.templates = []() -> std::optional<std::string> { return std::nullopt; };
    return made;
}

}  // namespace

TEST_CASE("every reason for not being ready is named on a line of its own") {
    OperatorParts made = parts();
    made.remarks = [] { return std::vector<std::string>{"features: gate off"}; };
    CHECK(answer_operator(made, "GET", "/readyz", "").body == "ok\nfeatures: gate off\n");
    made.not_ready = [] { return std::vector<std::string>{"draining", "no certificate"}; };
    const HttpAnswer answer = answer_operator(made, "GET", "/readyz", "");
    CHECK(answer.status == 503);
    CHECK(answer.body == "not ready: draining\nnot ready: no certificate\nfeatures: gate off\n");
}

TEST_CASE("being alive does not depend on being ready") {
    OperatorParts made = parts();
    made.not_ready = [] { return std::vector<std::string>{"draining"}; };
    CHECK(answer_operator(made, "GET", "/livez", "").status == 200);
}

TEST_CASE("pages answer by path and method") {
    const struct {
        const char* method;
        const char* target;
        int status;
    } rows[] = {{"GET", "/metrics", 200},
                {"HEAD", "/metrics?x", 200},
                {"POST", "/metrics", 405},
                {"GET", "/debug/inflight", 200},
                {"GET", "/debug/settings", 503},
                {"GET", "/debug/templates", 404},
                {"GET", "/", 404},
                {"GET", "", 404},
                {"GET", "/metrics/", 404},
                {"PUT", "/debug/settings", 405},
                {"GET", "/debug/loglevel", 200},
                {"DELETE", "/debug/loglevel", 405}};
    for (const auto& row : rows) {
        CAPTURE(row.method);
        CAPTURE(row.target);
        CHECK(answer_operator(parts(), row.method, row.target, "").status == row.status);
    }
}

TEST_CASE("the log level is set by its name and nothing else") {
    base::set_log_sink([](std::string_view) {});
    for (const char* const body : {"", "\n", "INFO", "loud", "info extra"}) {
        CHECK(answer_operator(parts(), "PUT", "/debug/loglevel", body).status == 400);
        CHECK(base::log_level() == base::Level::info);
    }
    CHECK(answer_operator(parts(), "PUT", "/debug/loglevel", "debug\r\n").status == 200);
    CHECK(base::log_level() == base::Level::debug);
    CHECK(answer_operator(parts(), "GET", "/debug/loglevel", "").body == "debug\n");
    base::set_log_level(base::Level::info);
    base::set_log_sink({});
}
