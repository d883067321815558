#pragma once
// An address and a port as options name them.

#include "base/result.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <string>

namespace drawbridge::agent {

/// `127.0.0.1:8082`, `[::1]:0`, `:8082` (every IPv4 address).
[[nodiscard]] base::Result<boost::asio::ip::tcp::endpoint> parse_endpoint(const std::string& text);

}  // namespace drawbridge::agent
