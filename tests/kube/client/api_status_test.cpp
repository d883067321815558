#include "kube/client/api_status.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace drawbridge;
using namespace drawbridge::kube::client;
using base::ErrorKind;

TEST_CASE("the status decides what kind of error an answer is") {
    struct Row {
        int status;
        ErrorKind kind;
    };
    const Row rows[] = {{400, ErrorKind::invalid_input}, {401, ErrorKind::forbidden},
                        {403, ErrorKind::forbidden},     {404, ErrorKind::not_found},
                        {409, ErrorKind::conflict},      {410, ErrorKind::conflict},
                        {422, ErrorKind::invalid_input}, {429, ErrorKind::unavailable},
                        {500, ErrorKind::unavailable},   {503, ErrorKind::unavailable},
                        {504, ErrorKind::timed_out},     {302, ErrorKind::unavailable}};
    for (const Row& row : rows) {
        CAPTURE(row.status);
        CHECK(error_of({.status = row.status}, "GET /x").kind == row.kind);
    }
}

TEST_CASE("the message of a Status is told, with the call and the status") {
    const auto error = error_of(
        {.status = 403, .body = R"({"kind":"Status","message":"exceeded quota: gpu"})"}, "POST /t");
    CHECK(error.message == "POST /t: the API server answered 403: exceeded quota: gpu");
}

TEST_CASE("a body that is no Status is told in printable form and not at length") {
    const std::string garbage = "<html>\r\n\x01" + std::string(5000, 'x');
    const auto error = error_of({.status = 502, .body = garbage}, "GET /x");
    CHECK(error.message.size() < 400);
    CHECK(error.message.find('\n') == std::string::npos);
    CHECK(error.message.find("<html>") != std::string::npos);
}

TEST_CASE("a long message is cut, and not inside a character") {
    std::string text;
    for (int i = 0; i < 2000; ++i)
        text += "\xC3\xA9";
    const auto error = error_of(
        {.status = 500, .body = R"({"kind":"Status","message":"x)" + text + "\"}"}, "GET /x");
    CHECK(error.message.size() < 1200);
    CHECK(error.message.ends_with("\xC3\xA9..."));
}
