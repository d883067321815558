#pragma once
// A gRPC server on unix sockets that knows methods by name and messages as bytes; the only place
// that sees gRPC's own headers, together with its .cpp file.

#include "base/result.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace drawbridge::agent::rpc {

/// gRPC status codes that we answer with.
enum class RpcCode { ok = 0, invalid_argument = 3, not_found = 5, unavailable = 14 };

/// The one answer to a call that has one.
struct RpcAnswer {
    RpcCode code = RpcCode::ok;
    std::string body;  ///< the message as bytes; with another code than `ok`: the reason
};

/// A call that waits for its answer. May be kept and used by any thread.
class RpcCall {
public:
    virtual ~RpcCall() = default;
    /// Answers; only the first one counts.
    virtual void finish(RpcAnswer answer) = 0;
    /// Whether the caller has gone or its deadline has passed.
    [[nodiscard]] virtual bool is_cancelled() const = 0;
};

/// A call that is answered with messages for as long as the caller listens. Any thread.
class RpcStream {
public:
    virtual ~RpcStream() = default;
    /// Sends a message. While one is under way only the newest of those to follow is kept: each
    /// replaces all before it.
    virtual void send(std::string body) = 0;
    /// Whether the caller has gone.
    [[nodiscard]] virtual bool is_closed() const = 0;
};

/// Called on the thread that serves all calls, which it must not hold up.
using UnaryMethod = std::function<void(std::string request, std::shared_ptr<RpcCall> call)>;
/// The same for a stream; it ends when the caller goes or the server stops.
using StreamMethod = std::function<void(std::string request, std::shared_ptr<RpcStream> stream)>;

/// One method by its full name, as in `/package.Service/Method`. One of the two is set.
struct RpcMethod {
    std::string name;
    UnaryMethod unary;
    StreamMethod stream;
};

/// Serves until it is destroyed.
class RpcServer {
public:
    explicit RpcServer(std::vector<RpcMethod> methods);
    RpcServer(const RpcServer&) = delete;
    RpcServer& operator=(const RpcServer&) = delete;
    ~RpcServer();

    /// Listens on a unix socket at each of `paths`, mode 0600. What lies there already is replaced.
    [[nodiscard]] base::Result<void> listen(const std::vector<std::string>& paths);
    /// Removes the sockets and ends: calls in progress get `grace` to finish. Blocks.
    void stop(std::chrono::milliseconds grace);

    struct Parts;  ///< defined in the .cpp file alone

private:
    std::unique_ptr<Parts> parts_;
};

}  // namespace drawbridge::agent::rpc
