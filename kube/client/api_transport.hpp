#pragma once
// One HTTP call to an API server, without knowledge of what it means: the seam between rules and
// sockets.

#include "base/result.hpp"

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace drawbridge::kube::client {

/// Who we are and whom we trust, as PEM and plain text; a new snapshot whenever any of it changes.
struct Access {
    std::string token = {};        ///< bearer token; empty: none
    std::string certificate = {};  ///< client certificate chain; empty: none
    std::string key = {};
    std::string authorities = {};  ///< empty: those of the system

    bool operator==(const Access&) const = default;
};

struct ApiCall {
    std::string method = "GET";
    std::string target = {};  ///< path and query
    std::string body = {};    ///< JSON; empty: none
    std::string content_type = "application/json";
    std::shared_ptr<const Access> access = nullptr;
    std::chrono::steady_clock::time_point deadline = {};
    std::size_t max_answer = 4U << 20U;
    bool repeatable = true;  ///< sending it twice does no harm
};

struct ApiAnswer {
    int status = 0;
    std::string body = {};
    std::optional<std::chrono::seconds> retry_after = std::nullopt;
};

/// The body of an answer that does not end by itself.
class ApiStream {
public:
    virtual ~ApiStream() = default;
    /// The next bytes; empty at the end. `timed_out` at the deadline.
    virtual boost::asio::awaitable<base::Result<std::string>> read(
        std::chrono::steady_clock::time_point deadline) = 0;
    /// Ends a read in progress, which then fails.
    virtual void close() = 0;
};

/// What came of opening a stream: the stream at status 200, else the whole answer.
struct OpenedStream {
    ApiAnswer answer;
    std::unique_ptr<ApiStream> stream;
};

/// Performs calls. All of it on one strand. An HTTP status is an answer, not an error; errors are
/// `unavailable` (no connection, cut off, not HTTP, answer too large) and `timed_out`.
class ApiTransport {
public:
    virtual ~ApiTransport() = default;
    virtual boost::asio::awaitable<base::Result<ApiAnswer>> call(ApiCall call) = 0;
    /// The deadline is for the head of the answer.
    virtual boost::asio::awaitable<base::Result<OpenedStream>> open(ApiCall call) = 0;
    /// Ends every open call and refuses new ones.
    virtual void close() = 0;
};

}  // namespace drawbridge::kube::client
