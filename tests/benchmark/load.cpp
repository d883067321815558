// Sends one set of reviews over several kept-alive TLS connections, each waiting for its answer,
// and tells how long the answers took and how much CPU the server spent.

#include <boost/asio.hpp>
#include <boost/asio/ssl.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Stream = asio::ssl::stream<asio::ip::tcp::socket>;

struct Options {
    std::uint16_t port = 0;
    std::string authority;
    int connections = 8;
    long reviews = 0;  ///< 0: as many as fit in `seconds`
    double seconds = 0;
    double rate = 0;  ///< reviews a second over all connections; 0: as fast as answers come
    std::vector<int> processes;
    std::vector<std::string> bodies;
};

/// What all connections share.
struct Run {
    const Options& options;
    std::vector<std::string> requests;
    std::vector<float> microseconds;
    Clock::time_point started;
    Clock::time_point ends;
    long sent = 0;
    long warm_up = 0;
    double cpu_before = 0;
    std::size_t answer_bytes = 0;
};

std::string read_file(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        throw std::runtime_error("cannot read " + path);
    }
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// CPU seconds a process has used in user and system mode (proc(5), fields 14 and 15).
double cpu_seconds(const std::vector<int>& processes) {
    double total = 0;
    for (const int process : processes) {
        const std::string text = read_file("/proc/" + std::to_string(process) + "/stat");
        std::istringstream fields(text.substr(text.rfind(')') + 2));
        std::string skipped;
        for (int field = 3; field < 14; ++field) {
            fields >> skipped;
        }
        long user = 0;
        long system = 0;
        fields >> user >> system;
        total += static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
    }
    return total;
}

/// Length of the body that follows a response head; every server measured here sends one.
std::size_t content_length(std::string_view head) {
    std::string lower(head);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t at = lower.find("content-length:");
    if (!head.starts_with("HTTP/1.1 200") || at == std::string::npos) {
        throw std::runtime_error("unexpected answer: " + std::string(head.substr(0, 200)));
    }
    return std::strtoul(lower.c_str() + at + 15, nullptr, 10);
}

asio::awaitable<void> exchange(Stream& stream, const std::string& request, std::string& buffer,
                               Run& run) {
    co_await asio::async_write(stream, asio::buffer(request), asio::use_awaitable);
    buffer.clear();
    const std::size_t head = co_await asio::async_read_until(stream, asio::dynamic_buffer(buffer),
                                                             "\r\n\r\n", asio::use_awaitable);
    const std::size_t whole = head + content_length(std::string_view(buffer).substr(0, head));
    if (buffer.size() < whole) {
        const std::size_t missing = whole - buffer.size();
        co_await asio::async_read(stream, asio::dynamic_buffer(buffer),
                                  asio::transfer_exactly(missing), asio::use_awaitable);
    }
    run.answer_bytes = whole - head;
}

bool finished(const Run& run) {
    return run.options.reviews > 0 ? run.sent >= run.options.reviews + run.warm_up
                                   : Clock::now() >= run.ends;
}

asio::awaitable<void> connection(asio::ssl::context& context, Run& run, int number) {
    const auto executor = co_await asio::this_coro::executor;
    Stream stream(executor, context);
    stream.set_verify_mode(asio::ssl::verify_peer);
    stream.set_verify_callback(asio::ssl::host_name_verification("127.0.0.1"));
    co_await stream.next_layer().async_connect(
        {asio::ip::make_address("127.0.0.1"), run.options.port}, asio::use_awaitable);
    stream.next_layer().set_option(asio::ip::tcp::no_delay(true));
    co_await stream.async_handshake(Stream::client, asio::use_awaitable);
    asio::steady_timer timer(executor);
    std::string buffer;
    const auto pause = std::chrono::duration<double>(
        run.options.rate > 0 ? run.options.connections / run.options.rate : 0);
    auto due = Clock::now() + std::chrono::duration_cast<Clock::duration>(pause * number /
                                                                          run.options.connections);
    while (!finished(run)) {
        if (run.options.rate > 0) {
            timer.expires_at(due);
            co_await timer.async_wait(asio::use_awaitable);
            due += std::chrono::duration_cast<Clock::duration>(pause);
        }
        const long turn = run.sent++;
        if (turn == run.warm_up) {
            run.started = Clock::now();
            run.cpu_before = cpu_seconds(run.options.processes);
        }
        const auto began = Clock::now();
        const auto& request = run.requests[static_cast<std::size_t>(turn) % run.requests.size()];
        co_await exchange(stream, request, buffer, run);
        if (turn >= run.warm_up) {
            run.microseconds.push_back(
                std::chrono::duration<float, std::micro>(Clock::now() - began).count());
        }
    }
}

Options parse(int count, char** values) {
    Options options;
    for (int i = 1; i < count; ++i) {
        const std::string name = values[i];
        if (!name.starts_with("--")) {
            options.bodies.push_back(name);
            continue;
        }
        if (++i == count) {
            throw std::runtime_error(name + " needs a value");
        }
        const std::string value = values[i];
        if (name == "--port") {
            options.port = static_cast<std::uint16_t>(std::stoi(value));
        } else if (name == "--ca") {
            options.authority = value;
        } else if (name == "--connections") {
            options.connections = std::stoi(value);
        } else if (name == "--reviews") {
            options.reviews = std::stol(value);
        } else if (name == "--seconds") {
            options.seconds = std::stod(value);
        } else if (name == "--rate") {
            options.rate = std::stod(value);
        } else if (name == "--pid") {
            options.processes.push_back(std::stoi(value));
        } else {
            throw std::runtime_error("unknown option " + name);
        }
    }
    return options;
}

std::vector<std::string> make_requests(const Options& options) {
    std::vector<std::string> requests;
    for (const std::string& path : options.bodies) {
        const std::string body = read_file(path);
        requests.push_back(
            "POST /mutate?timeout=5s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            "User-Agent: kube-apiserver-admission\r\nContent-Length: " +
            std::to_string(body.size()) +
            "\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n\r\n" + body);
    }
    return requests;
}

void report(Run& run) {
    const double seconds = std::chrono::duration<double>(Clock::now() - run.started).count();
    const double cpu = cpu_seconds(run.options.processes) - run.cpu_before;
    std::vector<float>& times = run.microseconds;
    std::sort(times.begin(), times.end());
    const auto at = [&](double share) {
        return times.empty()
                   ? 0.0F
                   : times[static_cast<std::size_t>(share * static_cast<double>(times.size() - 1))];
    };
    const auto count = static_cast<double>(std::max<std::size_t>(times.size(), 1));
    std::printf(
        "{\"reviews\": %zu, \"seconds\": %.3f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
        "\"max_us\": %.1f, \"server_cpu_us\": %.2f, \"answer_bytes\": %zu}\n",
        times.size(), seconds, static_cast<double>(at(0.5)), static_cast<double>(at(0.99)),
        static_cast<double>(at(1)), cpu * 1e6 / count, run.answer_bytes);
}

}  // namespace

int main(int count, char** values) {
    try {
        const Options options = parse(count, values);
        asio::ssl::context context(asio::ssl::context::tls_client);
        context.load_verify_file(options.authority);
        Run run{options, make_requests(options), {}, Clock::now(), {}, 0, 0, 0, 0};
        run.warm_up = options.reviews / 10;
        run.ends = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(options.seconds));
        run.microseconds.reserve(1U << 20U);
        asio::io_context loop(1);
        for (int i = 0; i < options.connections; ++i) {
            asio::co_spawn(loop, connection(context, run, i), [](std::exception_ptr error) {
                if (error) {
                    std::rethrow_exception(error);
                }
            });
        }
        loop.run();
        report(run);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "load: %s\n", error.what());
        return 1;
    }
}
