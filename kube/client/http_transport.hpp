#pragma once
// Calls to an API server over HTTP/1.1 and TLS, on a few connections that are kept open.

#include "kube/client/api_transport.hpp"
#include "kube/client/credentials.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <memory>

namespace drawbridge::kube::client {

/// `executor` is the strand on which all calls are made.
[[nodiscard]] std::unique_ptr<ApiTransport> make_http_transport(
    boost::asio::any_io_executor executor, Endpoint endpoint);

}  // namespace drawbridge::kube::client
