#pragma once
// An API server as a list of answers, for tests without sockets.

#include "kube/client/api_transport.hpp"
#include "kube/client/credentials.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <chrono>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace drawbridge::kube::client {

/// What the server says next: an answer, a failure of the connection, or a stream of pieces.
using Scripted = std::variant<ApiAnswer, base::Error, std::vector<std::string>>;

struct Script {
    std::deque<Scripted> next;
    std::vector<ApiCall> calls;

    [[nodiscard]] std::vector<std::string> targets() const {
        std::vector<std::string> out;
        for (const ApiCall& call : calls)
            out.push_back(call.method + " " + call.target);
        return out;
    }
};

class ScriptedStream final : public ApiStream {
public:
    explicit ScriptedStream(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
    boost::asio::awaitable<base::Result<std::string>> read(
        std::chrono::steady_clock::time_point) override {
        if (at_ == pieces_.size()) co_return std::string();
        if (pieces_[at_] == "cut") co_return base::fail(base::ErrorKind::timed_out, "cut");
        co_return pieces_[at_++];
    }
    void close() override { at_ = pieces_.size(); }

private:
    std::vector<std::string> pieces_;
    std::size_t at_ = 0;
};

class ScriptedTransport final : public ApiTransport {
public:
    explicit ScriptedTransport(Script& script) : script_(script) {}

    boost::asio::awaitable<base::Result<ApiAnswer>> call(ApiCall call) override {
        Scripted said = take(std::move(call));
        if (const auto* error = std::get_if<base::Error>(&said)) co_return tl::unexpected(*error);
        co_return std::get<ApiAnswer>(said);
    }
    boost::asio::awaitable<base::Result<OpenedStream>> open(ApiCall call) override {
        Scripted said = take(std::move(call));
        if (const auto* error = std::get_if<base::Error>(&said)) co_return tl::unexpected(*error);
        if (const auto* answer = std::get_if<ApiAnswer>(&said))
            co_return OpenedStream{*answer, nullptr};
        co_return OpenedStream{
            {.status = 200},
            std::make_unique<ScriptedStream>(std::get<std::vector<std::string>>(said))};
    }
    void close() override {}

private:
    Scripted take(ApiCall call) {
        script_.calls.push_back(std::move(call));
        if (script_.next.empty())
            return base::Error{base::ErrorKind::unavailable, "end of the script", {}};
        Scripted said = std::move(script_.next.front());
        script_.next.pop_front();
        return said;
    }
    Script& script_;
};

/// Hands out `first`, then `second` once it is asked to refresh.
class ScriptedAccess final : public AccessSource {
public:
    boost::asio::awaitable<base::Result<std::shared_ptr<const Access>>> get(
        bool refresh, std::chrono::steady_clock::time_point) override {
        if (refresh) token_ = "second";
        Access access;
        access.token = token_;
        co_return std::make_shared<const Access>(std::move(access));
    }
    void stop() override {}

private:
    std::string token_ = "first";
};

/// Runs a coroutine to its end and returns what it returned.
template <class T>
T run(boost::asio::io_context& io, boost::asio::awaitable<T> work) {
    std::optional<T> out;
    std::exception_ptr failure;
    boost::asio::co_spawn(io, std::move(work), [&](const std::exception_ptr& thrown, T value) {
        failure = thrown;
        out.emplace(std::move(value));
    });
    io.restart();
    io.run();
    if (failure) std::rethrow_exception(failure);
    return std::move(out.value());
}

[[nodiscard]] inline std::chrono::steady_clock::time_point in_a_minute() {
    return std::chrono::steady_clock::now() + std::chrono::minutes(1);
}

}  // namespace drawbridge::kube::client
