#pragma once
// Calls to the Kubernetes API with the right credentials, and its answers as results.

#include "base/json.hpp"
#include "base/result.hpp"
#include "kube/client/api_transport.hpp"
#include "kube/client/credentials.hpp"
#include "kube/client/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <memory>
#include <string>

namespace drawbridge::kube::client {

/// One client for one API server; all calls on one strand. There is no rate limit on our side: the
/// API server's own (429 with Retry-After) is honoured as far as a call's deadline allows.
class RestClient {
public:
    RestClient(boost::asio::any_io_executor executor, std::unique_ptr<ApiTransport> transport,
               std::unique_ptr<AccessSource> access)
        : transport_(std::move(transport)),
          access_(std::move(access)),
          stopping_(std::move(executor)) {}

    /// Performs a call; `access` of the call is filled in here. An answer that is no success is an
    /// error (api_status.hpp), a 401 only after one more try with credentials read anew.
    [[nodiscard]] boost::asio::awaitable<base::Result<ApiAnswer>> call(ApiCall call);
    /// `call`, with the answer's body read as JSON.
    [[nodiscard]] boost::asio::awaitable<base::Result<base::JsonDocument>> call_json(ApiCall call);
    /// Opens a stream (a watch); the deadline is for the head of the answer.
    [[nodiscard]] boost::asio::awaitable<base::Result<std::unique_ptr<ApiStream>>> open(
        ApiCall call);

    /// Ends all calls, open and to come.
    void stop();
    /// Set by `stop`; also what waits between calls look at.
    [[nodiscard]] Event& stopping() { return stopping_; }

private:
    template <class Answer, class Perform>
    boost::asio::awaitable<base::Result<Answer>> with_access(ApiCall call, Perform perform);

    std::unique_ptr<ApiTransport> transport_;
    std::unique_ptr<AccessSource> access_;
    Event stopping_;
};

}  // namespace drawbridge::kube::client
