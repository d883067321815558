#pragma once
// One connection of the admission port, from its handshake to its end.

#include "server/connection_deadlines.hpp"
#include "server/mutate_endpoint.hpp"
#include "server/tls_identity.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <atomic>
#include <cstddef>

namespace drawbridge::server {

/// How large a request may be. A review can hold two objects of 3 MiB (dra.md 6.6).
struct RequestLimits {
    std::uint32_t head = 16U << 10U;
    std::uint64_t body = 7U << 20U;
    /// Bodies over `small_body` share this much memory; what would go beyond is answered 503.
    std::int64_t large_bodies = std::int64_t{64} << 20U;
    std::int64_t small_body = std::int64_t{64} << 10U;
};

/// What all connections share; outlives them.
struct SessionParts {
    MutateEndpoint& endpoint;
    Metrics& metrics;
    ConnectionTimes times;
    RequestLimits limits = {};
    /// Bytes of large bodies in memory.
    std::atomic<std::int64_t> large_bytes{0};
    /// Told to stop: answers say `Connection: close` from now on.
    std::atomic<bool> leaving{false};
};

/// Serves one connection until either side ends it. Never throws; runs on the socket's executor,
/// which is that of `deadlines`.
[[nodiscard]] boost::asio::awaitable<void> serve_connection(boost::asio::ip::tcp::socket socket,
                                                            TlsIdentity identity,
                                                            SessionParts& parts,
                                                            ConnectionDeadlines& deadlines);

}  // namespace drawbridge::server
