#include "http/open_port.hpp"

#include <sstream>

namespace drawbridge::http {

base::Result<void> open_port(boost::asio::ip::tcp::acceptor& acceptor,
                             const boost::asio::ip::tcp::endpoint& endpoint) {
    boost::system::error_code error;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(boost::asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
    if (!error) return {};
    std::ostringstream address;
    address << endpoint;
    return base::fail(base::ErrorKind::unavailable, "cannot listen: " + error.message(),
                      address.str());
}

}  // namespace drawbridge::http
