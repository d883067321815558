#include "kube/client/rest_client.hpp"

#include "kube/client/api_status.hpp"

#include <fmt/format.h>

#include <utility>

namespace drawbridge::kube::client {

namespace asio = boost::asio;
using base::ErrorKind;
using base::Result;
using std::chrono::steady_clock;

namespace {

const ApiAnswer& answer_of(const ApiAnswer& answer) {
    return answer;
}
const ApiAnswer& answer_of(const OpenedStream& opened) {
    return opened.answer;
}

/// A failure on our side of the API server. What it is in detail (a token file that is not there)
/// must not look like an answer of the server (a template that is not there).
base::Error no_answer(std::string_view what, base::Error error) {
    if (error.kind != ErrorKind::timed_out) error.kind = ErrorKind::unavailable;
    error.message = fmt::format("{}: {}", what, error.message);
    return error;
}

/// When to ask again an API server that asked us to wait: never, where it did not, or where the
/// deadline comes first. The server may say so with 429 and with any 5xx (client-go does the same).
std::optional<steady_clock::time_point> ask_again_at(const ApiAnswer& answer,
                                                     steady_clock::time_point deadline) {
    if (answer.status != 429 && answer.status < 500) return std::nullopt;
    if (!answer.retry_after) return std::nullopt;
    // Zero seconds must not become a tight loop.
    const auto pause = std::max(
        std::chrono::milliseconds(100),
        std::chrono::milliseconds(std::min(*answer.retry_after, std::chrono::seconds(3600))));
    const auto at = steady_clock::now() + pause;
    return at < deadline ? std::optional(at) : std::nullopt;
}

}  // namespace

template <class Answer, class Perform>
asio::awaitable<Result<Answer>> RestClient::with_access(ApiCall call, Perform perform) {
    const std::string what =
        fmt::format("{} {}", call.method, call.target.substr(0, call.target.find('?')));
    bool refresh = false;
    while (true) {
        auto access = co_await access_->get(refresh, call.deadline);
        if (!access) co_return tl::unexpected(no_answer(what, std::move(access.error())));
        call.access = std::move(*access);
        Result<Answer> result = co_await perform(call);
        if (!result) co_return tl::unexpected(no_answer(what, std::move(result.error())));
        const ApiAnswer& answer = answer_of(*result);
        if (is_success(answer)) co_return result;
        if (answer.status == 401 && !refresh) {
            refresh = true;
            continue;
        }
        refresh = false;
        const auto again =
            answer.status == 401 ? std::nullopt : ask_again_at(answer, call.deadline);
        if (!again || co_await stopping_.wait(*again))
            co_return tl::unexpected(error_of(answer, what));
    }
}

asio::awaitable<Result<ApiAnswer>> RestClient::call(ApiCall call) {
    auto perform = [this](const ApiCall& ready) { return transport_->call(ready); };
    co_return co_await with_access<ApiAnswer>(std::move(call), perform);
}

asio::awaitable<Result<base::JsonDocument>> RestClient::call_json(ApiCall call) {
    const base::JsonLimits limits{.max_bytes = call.max_answer};
    const std::string what =
        fmt::format("{} {}", call.method, call.target.substr(0, call.target.find('?')));
    auto answer = co_await this->call(std::move(call));
    if (!answer) co_return tl::unexpected(answer.error());
    auto document = base::parse_json(std::move(answer->body), limits);
    if (!document) {
        co_return base::fail(
            base::ErrorKind::unavailable,
            fmt::format("{}: the answer is not JSON: {}", what, document.error().message));
    }
    co_return std::move(*document);
}

asio::awaitable<Result<std::unique_ptr<ApiStream>>> RestClient::open(ApiCall call) {
    auto perform = [this](const ApiCall& ready) { return transport_->open(ready); };
    auto opened = co_await with_access<OpenedStream>(std::move(call), perform);
    if (!opened) co_return tl::unexpected(opened.error());
    if (!opened->stream) co_return tl::unexpected(error_of(opened->answer, "watch"));
    co_return std::move(opened->stream);
}

void RestClient::stop() {
    stopping_.set();
    access_->stop();
    transport_->close();
}

}  // namespace drawbridge::kube::client
