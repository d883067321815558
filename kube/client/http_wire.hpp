#pragma once
// One connection to an API server: HTTP/1.1, one request at a time, plain or over TLS.

#include "base/result.hpp"
#include "kube/client/api_transport.hpp"
#include "kube/client/credentials.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace boost::asio::ssl {
class context;
}

namespace drawbridge::kube::client {

/// Connect, then send, read the head and the pieces of the answer, and send again if it is
/// reusable. Errors are `unavailable` and `timed_out`, and name the server. After an error only the
/// destructor is left. One strand.
class HttpWire {
public:
    using Deadline = std::chrono::steady_clock::time_point;

    /// `tls` none: plain. `endpoint` must outlive the wire.
    HttpWire(const boost::asio::any_io_executor& executor, const Endpoint& endpoint,
             std::shared_ptr<boost::asio::ssl::context> tls);
    HttpWire(const HttpWire&) = delete;
    HttpWire& operator=(const HttpWire&) = delete;
    ~HttpWire();

    /// Connects to the first of the addresses that answers; with TLS, its certificate is verified
    /// here.
    boost::asio::awaitable<base::Result<void>> connect(
        std::vector<boost::asio::ip::tcp::endpoint> addresses, Deadline deadline);
    /// Sends the request; its deadline also holds for the head of the answer.
    boost::asio::awaitable<base::Result<void>> send(const ApiCall& call);
    /// The answer without its body; a body larger than `most`, if that is given, will be an error.
    boost::asio::awaitable<base::Result<ApiAnswer>> read_head(std::optional<std::size_t> most);
    /// The next bytes of the body; empty at its end.
    boost::asio::awaitable<base::Result<std::string>> read_piece(Deadline deadline);

    /// Whether any byte of the answer has come.
    [[nodiscard]] bool answer_begun() const;
    /// Whether the answer is whole, nothing came behind it, and the server keeps the connection.
    [[nodiscard]] bool reusable() const;
    /// Whether it was made with this context.
    [[nodiscard]] bool made_with(const std::shared_ptr<boost::asio::ssl::context>& tls) const;

    /// Keeps the wire without a deadline, from `now` on.
    void rest(Deadline now);
    [[nodiscard]] Deadline resting_since() const;
    /// Closes the connection; what is in progress fails.
    void hang_up();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace drawbridge::kube::client
