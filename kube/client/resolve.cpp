#include "kube/client/resolve.hpp"

#include "kube/client/event.hpp"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <cstdint>
#include <memory>

namespace drawbridge::kube::client {

namespace asio = boost::asio;
using asio::ip::tcp;
using base::ErrorKind;
using base::Result;

namespace {

struct Lookup {
    explicit Lookup(const asio::any_io_executor& executor) : resolver(executor), done(executor) {}
    tcp::resolver resolver;
    Event done;
    boost::system::error_code failure;
    std::vector<tcp::endpoint> found;
};

}  // namespace

asio::awaitable<Result<std::vector<tcp::endpoint>>> resolve(
    asio::any_io_executor executor, std::string host, std::string port,
    std::chrono::steady_clock::time_point deadline) {
    boost::system::error_code not_an_address;
    const auto address = asio::ip::make_address(host, not_an_address);
    if (!not_an_address) {
        const auto number =
            static_cast<std::uint16_t>(std::stoul(port));  // checked where it was read
        co_return std::vector<tcp::endpoint>{tcp::endpoint(address, number)};
    }
    const auto lookup = std::make_shared<Lookup>(executor);
    lookup->resolver.async_resolve(
        host, port,
        [lookup](boost::system::error_code failure, const tcp::resolver::results_type& results) {
            lookup->failure = failure;
            for (const auto& entry : results)
                lookup->found.push_back(entry.endpoint());
            lookup->done.set();
        });
    if (!co_await lookup->done.wait(deadline)) {
        co_return base::fail(ErrorKind::timed_out,
                             fmt::format("{}: the name was not resolved in time", host));
    }
    if (lookup->failure || lookup->found.empty()) {
        co_return base::fail(ErrorKind::unavailable, fmt::format("{}: cannot resolve the name: {}",
                                                                 host, lookup->failure.message()));
    }
    co_return std::move(lookup->found);
}

}  // namespace drawbridge::kube::client
