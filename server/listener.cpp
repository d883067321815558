#include "server/listener.hpp"

#include "base/log.hpp"
#include "http/open_port.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

namespace drawbridge::server {

namespace asio = boost::asio;
using boost::system::error_code;

/// One thread and its connections.
struct Listener::Worker {
    asio::io_context io{1};
    ConnectionDeadlines deadlines{io.get_executor()};
    asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
    std::atomic<std::size_t> load{0};
    std::thread thread;
};

namespace {

void log_end(const std::exception_ptr& failure) {
    if (!failure) return;
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& error) {
        base::log_event(base::Level::error, "listener", {{"reason", error.what()}});
    }
}

}  // namespace

Listener::Listener(SessionParts& parts, const TlsIdentityHolder& identity, Limits limits)
    : parts_(parts),
      identity_(identity),
      limits_(limits),
      workers_([&] {
          std::vector<std::unique_ptr<Worker>> workers(std::max<std::size_t>(limits.threads, 1));
          for (auto& worker : workers)
              worker = std::make_unique<Worker>();
          return workers;
      }()),
      acceptor_(workers_.front()->io) {}

Listener::~Listener() {
    for (const auto& worker : workers_)
        worker->io.stop();
    for (const auto& worker : workers_) {
        if (worker->thread.joinable()) worker->thread.join();
    }
}

base::Result<void> Listener::listen(const asio::ip::tcp::endpoint& endpoint) {
    if (auto opened = http::open_port(acceptor_, endpoint); !opened) return opened;
    port_ = acceptor_.local_endpoint().port();
    return {};
}

void Listener::start() {
    asio::co_spawn(workers_.front()->io, accept_all(), log_end);
    for (const auto& worker : workers_) {
        worker->thread = std::thread([&io = worker->io] { io.run(); });
    }
}

Listener::Worker& Listener::least_loaded() {
    const auto load = [](const auto& worker) { return worker->load.load(); };
    return **std::ranges::min_element(workers_, {}, load);
}

asio::awaitable<void> Listener::accept_all() {
    while (acceptor_.is_open()) {
        Worker& worker = least_loaded();
        error_code error;
        auto socket = co_await acceptor_.async_accept(
            worker.io, asio::redirect_error(asio::use_awaitable, error));
        if (!error) {
            admit(worker, std::move(socket));
        } else if (error != asio::error::operation_aborted) {
            // Out of file descriptors, most likely: others end soon.
            base::log_event(base::Level::error, "accept", {{"reason", error.message()}});
            asio::steady_timer pause(co_await asio::this_coro::executor,
                                     std::chrono::milliseconds{100});
            co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
        }
    }
}

void Listener::admit(Worker& worker, asio::ip::tcp::socket socket) {
    TlsIdentity identity = identity_.current();
    if (!identity || open_ >= limits_.max_connections) {
        ++parts_.metrics.connections_refused;
        return;  // closes it
    }
    ++open_;
    ++worker.load;
    ++parts_.metrics.connections;
    auto ended = [this, &worker](const std::exception_ptr& failure) {
        log_end(failure);
        --parts_.metrics.connections;
        --worker.load;
        --open_;
    };
    asio::co_spawn(
        worker.io,
        serve_connection(std::move(socket), std::move(identity), parts_, worker.deadlines),
        std::move(ended));
}

void Listener::finish() {
    asio::post(workers_.front()->io, [this] {
        error_code ignored;
        acceptor_.close(ignored);
    });
    for (const auto& worker : workers_) {
        asio::post(worker->io, [&deadlines = worker->deadlines] { deadlines.close_idle(); });
    }
}

bool Listener::stop() {
    if (open_ != 0) return false;
    for (const auto& worker : workers_)
        worker->work.reset();
    for (const auto& worker : workers_) {
        if (worker->thread.joinable()) worker->thread.join();
    }
    return true;
}

}  // namespace drawbridge::server
