// A bare HTTPS server on the same stack as ours: reads a request, writes an answer of a fixed size,
// does nothing between. What it costs is what the stack costs.

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Stream = beast::ssl_stream<beast::tcp_stream>;

asio::awaitable<void> session(Stream stream, const std::string& answer) {
    beast::get_lowest_layer(stream).expires_after(std::chrono::seconds(120));
    co_await stream.async_handshake(asio::ssl::stream_base::server, asio::use_awaitable);
    beast::flat_buffer buffer;
    buffer.reserve(32U << 10U);  // else it grows by halves, with a read for each step
    for (;;) {
        beast::get_lowest_layer(stream).expires_after(std::chrono::seconds(120));
        http::request_parser<http::string_body> parser;
        parser.body_limit(7U << 20U);
        co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
        http::response<http::string_body> response(http::status::ok, 11);
        response.set(http::field::content_type, "application/json");
        response.body() = answer;
        response.prepare_payload();
        beast::get_lowest_layer(stream).expires_after(std::chrono::seconds(120));
        co_await http::async_write(stream, response, asio::use_awaitable);
    }
}

asio::awaitable<void> accept(asio::ip::tcp::acceptor& acceptor, asio::ssl::context& context,
                             const std::string& answer) {
    for (;;) {
        auto strand = asio::make_strand(acceptor.get_executor());
        asio::ip::tcp::socket socket = co_await acceptor.async_accept(strand, asio::use_awaitable);
        socket.set_option(asio::ip::tcp::no_delay(true));
        auto done = [](std::exception_ptr) {};  // a connection ends with an error: end of stream
        asio::co_spawn(strand, session(Stream(std::move(socket), context), answer), done);
    }
}

}  // namespace

/// Arguments: certificate, key, bytes of an answer, threads. Prints the port.
int main(int count, char** values) {
    if (count != 5) {
        std::fprintf(stderr, "usage: benchmark_echo CERTIFICATE KEY ANSWER-BYTES THREADS\n");
        return 1;
    }
    try {
        const std::string answer(std::strtoul(values[3], nullptr, 10), 'x');
        const int threads = std::atoi(values[4]);
        asio::ssl::context context(asio::ssl::context::tls_server);
        context.use_certificate_chain_file(values[1]);
        context.use_private_key_file(values[2], asio::ssl::context::pem);
        asio::io_context loop(threads);
        asio::ip::tcp::acceptor acceptor(loop, {asio::ip::make_address("127.0.0.1"), 0});
        asio::co_spawn(loop, accept(acceptor, context, answer), asio::detached);
        std::printf("%d\n", acceptor.local_endpoint().port());
        std::fflush(stdout);
        std::vector<std::jthread> others;
        for (int i = 1; i < threads; ++i) {
            others.emplace_back([&loop] { loop.run(); });
        }
        loop.run();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "echo: %s\n", error.what());
        return 1;
    }
}
