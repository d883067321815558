#include "agent/process/operator_client.hpp"

#include "agent/process/address.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <fmt/format.h>

#include <chrono>
#include <iterator>

namespace drawbridge::agent {
namespace {

constexpr std::chrono::seconds patience{20};

}  // namespace

base::Result<std::string> fetch_page(const std::string& address, const std::string& path) {
    const auto endpoint = parse_endpoint(address);
    if (!endpoint) return tl::unexpected(endpoint.error());
    boost::asio::ip::tcp::iostream stream;
    stream.expires_after(patience);
    stream.connect(*endpoint);
    stream << "GET " << path << " HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"
           << std::flush;
    const std::string answer{std::istreambuf_iterator<char>(stream), {}};
    const std::size_t head = answer.find("\r\n\r\n");
    if (head == std::string::npos) {
        return base::fail(
            base::ErrorKind::unavailable,
            fmt::format("no agent answers at {}: {}", address, stream.error().message()));
    }
    const std::string body = answer.substr(head + 4);
    if (!answer.starts_with("HTTP/1.1 200 "))
        return base::fail(base::ErrorKind::unavailable, fmt::format("the agent says: {}", body));
    return body;
}

}  // namespace drawbridge::agent
