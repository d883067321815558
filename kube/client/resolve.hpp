#pragma once
// Names to addresses, within a deadline.

#include "base/result.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace drawbridge::kube::client {

/// The endpoints of a host name or an address. The system's resolver cannot be interrupted; at the
/// deadline it is left to itself.
[[nodiscard]] boost::asio::awaitable<base::Result<std::vector<boost::asio::ip::tcp::endpoint>>>
resolve(boost::asio::any_io_executor executor, std::string host, std::string port,
        std::chrono::steady_clock::time_point deadline);

}  // namespace drawbridge::kube::client
