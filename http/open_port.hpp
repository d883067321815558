#pragma once
// Opens a listening socket.

#include "base/result.hpp"

#include <boost/asio/ip/tcp.hpp>

namespace drawbridge::http {

/// Binds and listens; an error names the address.
[[nodiscard]] base::Result<void> open_port(boost::asio::ip::tcp::acceptor& acceptor,
                                           const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace drawbridge::http
