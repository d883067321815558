#include "agent/process/address.hpp"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <charconv>
#include <cstdint>

namespace drawbridge::agent {

base::Result<boost::asio::ip::tcp::endpoint> parse_endpoint(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host.empty()) host = "0.0.0.0";
    std::uint16_t port = 0;
    const char* const begin = text.data() + (colon == std::string::npos ? text.size() : colon + 1);
    const char* const end = text.data() + text.size();
    const auto [rest, failure] = std::from_chars(begin, end, port);
    boost::system::error_code error;
    const auto address = boost::asio::ip::make_address(host, error);
    if (error || failure != std::errc() || rest != end) {
        return base::fail(
            base::ErrorKind::invalid_input,
            fmt::format("{} is no address; write for example 127.0.0.1:8082 or :8082", text));
    }
    return boost::asio::ip::tcp::endpoint(address, port);
}

}  // namespace drawbridge::agent
